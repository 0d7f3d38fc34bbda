"""The ServerApp, with its ledger, checkpoints and central evaluation."""
