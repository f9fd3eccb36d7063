"""Maps: road, vessel and neuron networks as graphs in the plane, and how to compare two of them."""
