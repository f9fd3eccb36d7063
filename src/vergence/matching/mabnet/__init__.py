"""MABNet: disparity of a stereo pair with a network of 1.7 million or 47 thousand weights."""

from vergence.contract.about import About

ABOUT = About(
    name="mabnet",
    title="MABNet: A Lightweight Stereo Network Based on Multibranch Adjustable Bottleneck Module",
    authors=("Jiabin Xing", "Zhi Qi", "Jiying Dong", "Jiaxuan Cai", "Hao Liu"),
    venue="ECCV 2020",
    tasks=("stereo matching",),
    brief="disparity and depth from a stereo pair",
    summary=(
        "A rectified pair of photographs gives the disparity of every pixel, and with baseline and focal length its "
        "depth. Features come from bottlenecks whose branches have different dilations, a volume of candidate matches "
        "is filtered by small 3D hourglasses, and the disparity is the mean under a softmax. The model has 1,655,044 "
        "parameters, the tiny one 47,260."
    ),
    key="xing2020mabnet",
    links=("https://github.com/JumpXing/MABNet",),
)
