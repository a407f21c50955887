"""Every check of the device level: it reports what it is for, where, and nothing else."""

from __future__ import annotations

import pytest
import torch

from emulator.device import DeviceCheckError, Finding, options
from tests.emulator.device.program import ALL, MTE2, MTE3, UB_BYTES, Gm, M, Program, S, Ub, V, binary, bursts, unary

BYTES = 1024
LANES = BYTES // 4
ADD = binary(BYTES // 256)


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(LANES, dtype=torch.float32), torch.zeros(LANES)


def doubled(x: torch.Tensor, out: torch.Tensor, program: Program) -> None:
    program.run(x, out)
    assert torch.equal(out, x * 2)


def findings(program: Program, *given: torch.Tensor) -> list[Finding]:
    with pytest.raises(DeviceCheckError) as caught:
        program.run(*given)
    return caught.value.findings


def only(program: Program, check: str, *given: torch.Tensor) -> Finding:
    found = findings(program, *given)
    assert {one.check for one in found} == {check}
    return found[0]


def pipeline() -> Program:
    """x + x by the book."""
    return (
        Program()
        .load(0, 0, BYTES)
        .flag(MTE2, V)
        .call("VADD.f32", Ub(2048), Ub(0), Ub(0), ADD)
        .flag(V, MTE3)
        .store(1, 2048, BYTES)
    )


def test_the_book_is_clean() -> None:
    doubled(*tensors(), pipeline())


def test_read_after_write_across_pipes() -> None:
    program = Program().load(0, 0, BYTES).call("VADD.f32", Ub(2048), Ub(0), Ub(0), ADD)
    found = only(program, "hazard", *tensors())
    assert found.line == 2
    assert found.instruction.startswith("VADD.f32")
    assert "RAW: VADD_f32 on V reads UB 0..32, used before by MOV_OUT_TO_UB_b8 on MTE2 (module line 1)" in found.message


def test_vector_read_after_vector_write_needs_a_barrier() -> None:
    def twice(barrier: bool) -> Program:
        program = Program().load(0, 0, BYTES).flag(MTE2, V).call("VADD.f32", Ub(2048), Ub(0), Ub(0), ADD)
        if barrier:
            program.call("BARRIER", V)
        return program.call("VADD.f32", Ub(4096), Ub(2048), Ub(2048), ADD)

    twice(barrier=True).run(*tensors())
    assert "RAW" in only(twice(barrier=False), "hazard", *tensors()).message


def test_write_over_what_is_still_read() -> None:
    program = pipeline().call("VADD.f32", Ub(2048), Ub(0), Ub(0), ADD)  # the store may still be reading
    assert "WAR" in only(program, "hazard", *tensors()).message
    pipeline().flag(MTE3, V).call("VADD.f32", Ub(2048), Ub(0), Ub(0), ADD).run(*tensors())


def test_order_passes_through_third_pipes() -> None:
    """MTE3 waits for V, V waited for MTE2; and what the scalar unit waited for holds for all it dispatches."""
    through_vector = Program().load(0, 0, BYTES).flag(MTE2, V).flag(V, MTE3).store(1, 0, BYTES)
    through_vector.run(*tensors())
    through_scalar = Program().load(0, 0, BYTES).flag(MTE2, S).store(1, 0, BYTES)
    through_scalar.run(*tensors())
    Program().load(0, 0, BYTES).call("BARRIER", ALL).store(1, 0, BYTES).run(*tensors())


def test_masked_lanes_and_gaps_are_not_touched() -> None:
    """The second half of a repeat is being loaded while a mask keeps an instruction to the first."""
    program = Program().load(0, 0, 128).flag(MTE2, V).norm(low=0xFFFFFFFF).load(128, 0, 128)
    program.call("VADD.f32", Ub(2048), Ub(0), Ub(0), binary(1)).norm().run(*tensors())
    program = Program().load(0, 0, 32).flag(MTE2, V).load(32, 0, 32)
    program.call("VADD.f32", Ub(2048), Ub(0), Ub(0), binary(1, (1, 0, 0))).run(*tensors())


def test_bounds_of_the_unified_buffer() -> None:
    program = Program().load(UB_BYTES - 32, 0, 64)
    found = only(program, "ub bounds", *tensors())
    assert f"writes UB {UB_BYTES - 32}..{UB_BYTES + 32}, outside 0..{UB_BYTES}" in found.message


def test_alignment() -> None:
    assert "UB address 8" in only(Program().load(8, 0, 64), "alignment", *tensors()).message


@pytest.mark.parametrize(("offset", "size"), [(-4, 32), (BYTES - 16, 32), (BYTES, 4)])
def test_global_memory_outside_the_tensors(offset: int, size: int) -> None:
    program = Program().load(0, 0, size, offset)
    found = only(program, "gm bounds", torch.zeros(LANES)[:])
    assert f"reads {size} bytes at GM" in found.message


def test_bytes_never_written_do_not_leave() -> None:
    program = Program().load(0, 0, 36).flag(MTE2, MTE3).store(1, 0, 40)  # four bytes of the padded burst's tail
    assert "UB 36" in only(program, "poison", *tensors()).message
    Program().load(0, 0, 36).flag(MTE2, MTE3).store(1, 0, 36).run(*tensors())


def test_taint_follows_the_data() -> None:
    def summed(stored: int) -> Program:
        program = Program().load(0, 0, 100).flag(MTE2, V).call("VADD.f32", Ub(2048), Ub(0), Ub(0), binary(1))
        return program.flag(V, MTE3).store(1, 2048, stored)

    summed(100).run(*tensors())
    assert "UB 2148" in only(summed(104), "poison", *tensors()).message


def test_taint_is_exact_in_logic() -> None:
    """A known zero bit decides an AND whatever the other operand holds."""
    program = Program().call("MOVEV.u16", Ub(0), 0, unary(1)).call("BARRIER", V)
    program.call("VAND.u16", Ub(512), Ub(0), Ub(4096), binary(1)).flag(V, MTE3).store(1, 512, 256)
    x, out = tensors()
    program.run(x, out)
    assert torch.equal(out[:64], torch.zeros(64))
    program = Program().call("MOVEV.u16", Ub(0), 0, unary(1)).call("BARRIER", V)
    program.call("VOR.u16", Ub(512), Ub(0), Ub(4096), binary(1)).flag(V, MTE3).store(1, 512, 256)
    only(program, "poison", x, out)


def test_gather_does_not_take_addresses_from_nowhere() -> None:
    program = Program().count(8).call("VGATHER.b32", Ub(1024), Ub(0), 0 << 56)
    assert "takes addresses" in only(program, "poison", *tensors()).message


def test_flags_come_in_pairs() -> None:
    twice = Program().call("SET.FLAG.IMM", V, MTE3, 1).call("SET.FLAG.IMM", V, MTE3, 1)
    twice.call("WAIT.FLAG.IMM", V, MTE3, 1)
    assert "V->MTE3 event 1, which is already set" in only(twice, "flag", *tensors()).message
    left = Program().call("SET.FLAG.IMM", MTE2, V, 3)
    assert "MTE2->V event 3 is still set" in only(left, "flag", *tensors()).message
    alone = Program().call("WAIT.FLAG.IMM", MTE2, V, 0)
    assert "would hang" in only(alone, "flag", *tensors()).message


def test_control_register_is_restored() -> None:
    found = only(Program().call("SET.CTRL", 1 << 48 | 1 << 59), "register", *tensors())
    assert found.message.startswith("CTRL is 801000000000000")


def test_what_is_not_modelled_is_refused() -> None:
    assert "pipe 2" in only(Program().call("BARRIER", M), "unsupported", *tensors()).message
    shifted = Program().load(0, 0, 256).flag(MTE2, V).call("VSHR.s32", Ub(512), Ub(0), 1, unary(1), 1)
    assert "rounding" in only(shifted, "unsupported", *tensors()).message


def test_every_finding_of_a_program_is_kept() -> None:
    program = Program().load(8, 0, 64).load(40, 0, 64).call("SET.FLAG.IMM", MTE2, V, 0)
    assert [one.check for one in findings(program, *tensors())] == ["alignment", "alignment", "flag"]


def test_checks_can_be_switched_off_but_not_bounds() -> None:
    x, out = tensors()
    with options(checks=False):
        Program().load(0, 0, BYTES).store(1, 0, BYTES).run(x, out)
        assert torch.equal(x, out)
        only(Program().load(UB_BYTES, 0, 64), "ub bounds", x, out)


def test_bursts_are_checked_one_by_one() -> None:
    """Two bursts of 32 bytes, 1024 apart: the second one starts where the tensor ends."""
    program = Program().call("MOV.OUT.TO.UB.ALIGN.b8.V220", Ub(0), Gm(0), bursts(2, 32), BYTES - 32)
    assert "gm bounds" in {one.check for one in findings(program, *tensors())}
