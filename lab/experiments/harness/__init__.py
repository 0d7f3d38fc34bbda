"""The machinery of all experiments: it runs, keeps and judges them."""
