"""Ten steps of TRL's GRPO on the embedded world's labeler, rewarded by CPMI; run by the test beside, with TRL's Python.

Prints the log of the trainer as JSON, and how far a weight has moved.
"""

import json
import sys
import tempfile
from pathlib import Path

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from cpmi_dagster import reward_function
from cpmi_dagster.models.language_models import model_folder
from cpmi_dagster.trajectories.templates import render_question

STEPS = 10


def main(trajectories: Path) -> None:
    rows = [json.loads(line) for line in trajectories.read_text(encoding="utf-8").splitlines()]
    columns = [
        {"prompt": render_question(row["question"]), "question": row["question"], "gold_answer": row["gold_answer"]}
        for row in rows
    ]
    folder = model_folder("miniature:labeler")
    policy = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    before = policy.get_output_embeddings().weight.detach().clone()
    with tempfile.TemporaryDirectory() as output:
        config = GRPOConfig(
            output,
            max_steps=STEPS,
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=64,
            learning_rate=1e-3,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
        )
        trainer = GRPOTrainer(
            model=policy,
            processing_class=AutoTokenizer.from_pretrained(folder),
            reward_funcs=reward_function("miniature:labeler", templates=1, device="cpu"),
            args=config,
            train_dataset=Dataset.from_list(columns),
        )
        trainer.train()
    moved = (trainer.model.get_output_embeddings().weight.detach() - before).abs().max().item()
    print(json.dumps({"log": trainer.state.log_history, "moved": moved}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
