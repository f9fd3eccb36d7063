"""Maps: road, vessel and neuron networks as graphs in the plane, and metrics that compare them."""
