"""The parts of a round, each with one job; :class:`aoi_fl.strategies.strategy.AgeAwareStrategy` is composed of them."""
