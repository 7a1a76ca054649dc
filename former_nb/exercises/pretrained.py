"Pretrained models: somebody else's weights in our modules."

from ..grading.ask import exercise

# ---------------------------------------------------------------- exercises


@exercise(
    "pretrained.1",
    parts=(
        "`attn.c_attn` is 24 × 72, and a third of its columns is square, so it fits both ways",
        "`attn.c_proj` maps 24 features to 24, so it is square and fits both ways",
        "`mlp.c_fc` is 24 × 96; turned it is 96 × 24, which isn't its shape",
        "`mlp.c_proj` is 96 × 24; turned it is 24 × 96, which isn't its shape",
    ),
)
def loaded_on_their_side():
    # ? Write down the four shapes. A weight is loaded if turning leaves its shape as it is.
    # ? A third of c_attn and attn.c_proj are square: [True, True, False, False].
    return [True, True, False, False]
    #! some are square and fit both ways; which map 24 features to 24?
    # ~ return [False, False, False, False]
    #! each is the other way round; True means that it is loaded without an error
    # ~ return [False, False, True, True]
