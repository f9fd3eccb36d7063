"""Maps out of pictures: saliency, and the vertical of panoramas."""
