"""The task: data sets, their partition, models and local SGD. Only this room uses torch."""
