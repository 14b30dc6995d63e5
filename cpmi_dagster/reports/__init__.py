"""The paper's tables and figures beside ours, and the HTML report that shows them."""
