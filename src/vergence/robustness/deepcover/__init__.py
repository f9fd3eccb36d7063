"""Explanations of image classifiers by statistical fault localisation."""

from vergence.contract.about import About

ABOUT = About(
    name="deepcover",
    title="Explaining Image Classifiers Using Statistical Fault Localization",
    authors=("Youcheng Sun", "Hana Chockler", "Xiaowei Huang", "Daniel Kroening"),
    venue="ECCV 2020",
    tasks=("explanation of classifiers", "pixel attribution"),
    brief="why a classifier says what it says",
    summary=(
        "Which pixels a classifier's answer rests on. DeepCover masks parts of a picture, notes which masks change the "
        "answer, ranks pixels by measures of statistical fault localisation, and returns a small set of pixels that is "
        "enough for the answer. It asks nothing but answers, of any classifier. RISE, occlusion, LIME, Kernel SHAP, "
        "Grad-CAM, integrated gradients and extremal masks are its baselines, under one interface."
    ),
    key="sun2020explaining",
    links=("https://github.com/theyoucheng/deepcover", "https://www.roaming-panda.com"),
)
