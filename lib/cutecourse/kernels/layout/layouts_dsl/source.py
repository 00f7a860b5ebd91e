"""The layouts of chapter 1 in the CuTe DSL. Nothing is launched: the DSL prints them while it traces."""

from cutlass import cute


@cute.jit
def layouts():
    row_major = cute.make_layout((4, 8), stride=(8, 1))
    ordered = cute.make_ordered_layout((4, 8), order=(1, 0))
    merged = cute.coalesce(cute.make_layout((2, (1, 6)), stride=(1, (6, 2))))
    square = cute.make_layout((8, 8), stride=(8, 1))
    every_second = cute.composition(square, (cute.make_layout(4, stride=2), cute.make_layout(2)))
    rest = cute.complement(cute.make_layout(4, stride=2), 24)
    zipped = cute.zipped_divide(row_major, (2, 4))
    tile = cute.make_layout((2, 2))
    blocked = cute.blocked_product(tile, cute.make_layout((2, 3)))
    inverse = cute.right_inverse(row_major)

    print("row_major", row_major)
    print("ordered", ordered)
    print("merged", merged)
    print("every_second", every_second)
    print("rest", rest)
    print("zipped", zipped)
    print("blocked", blocked)
    print("inverse", inverse)
