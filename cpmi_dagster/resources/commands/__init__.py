"""What commands do beside running the DAG: status, trace, doctor, verification, export."""
