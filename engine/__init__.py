"""Running the app on one machine: in this process, or in Flower's simulation, isolated from its neighbours."""
