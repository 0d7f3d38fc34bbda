"""The ServerApp: configuration, ledger, checkpoint, central evaluation."""
