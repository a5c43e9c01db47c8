"""Stored runs as files of other programs: tables, TensorBoard, MLflow, and model files."""
