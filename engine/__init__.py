"""Running the app on one machine: Flower's simulation, isolated from its neighbours, followed, and ended."""
