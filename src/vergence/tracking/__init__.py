"""Visual object tracking: a target given in the first frame is located in every later one."""
