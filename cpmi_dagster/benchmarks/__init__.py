"""The benchmarks models are judged on: their problems in one shape, their metrics, and how sure each figure is."""
