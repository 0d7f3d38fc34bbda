"""The task: data sets, how they are dealt out to clients, models, local SGD. The only room that knows torch."""
