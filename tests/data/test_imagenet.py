from vergence.data.imagenet import COUNT, words


def test_every_class_has_a_name_of_its_own_at_its_index():
    assert len(words()) == len(set(words())) == COUNT
    # Indices that ImageNet's users know by heart.
    known = {
        0: "tench",
        207: "golden retriever",
        281: "tabby",
        504: "coffee mug",
        967: "espresso",
        999: "toilet tissue",
    }
    assert {index: words()[index] for index in known} == known
    assert all(name == name.strip() and name for name in words())
