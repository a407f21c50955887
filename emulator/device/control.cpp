// Registers, flags, barriers, scalar accesses, and the loop that runs the programs of a launch on one host thread.
#include "core.h"
#include <algorithm>
#include <cstdlib>
#include <new>

#define INTRINSIC extern "C" void

// ---- registers
extern "C" u64 hivm_GET_CTRL() { return core->ctrl; }
INTRINSIC hivm_SET_CTRL(u64 value) {
  scalar_step();
  core->ctrl = value;
}
extern "C" u64 hivm_SBITSET0(u64 word, u64 index) { return word & ~(1ull << index); }
extern "C" u64 hivm_SBITSET1(u64 word, u64 index) { return word | 1ull << index; }
INTRINSIC hivm_MOVEMASK(u64 half, u64 value) {
  scalar_step();
  core->mask[half & 1] = value;
}
INTRINSIC device_set_mask_norm() {
  scalar_step();
  core->ctrl &= ~(1ull << CTRL_COUNT);
  core->mask[0] = core->mask[1] = ~0ull;
}
extern "C" u64 hivm_GET_BLOCK_IDX() { return core->program; }
extern "C" u64 hivm_GET_SUBBLOCKID() { return 0; }
extern "C" u64 hivm_GET_SUBBLOCKDIM() { return 1; }
// Cleaning a line of the scalar unit's cache: this host's caches are coherent.
INTRINSIC hivm_DCCI(void *, u64) { scalar_step(); }
INTRINSIC hivm_TRAP() { fatal("trap", "the kernel stopped itself (TRAP): a template refused its operands"); }

// ---- flags and barriers. The ISA numbers pipes S 0, V 1, M 2, MTE1 3, MTE2 4, MTE3 5, all 6.
static u8 pipe_of(u64 number) {
  constexpr u8 NONE = 255, MAP[7] = {S, V, NONE, NONE, MTE2, MTE3, PIPES};
  if (number > 6 || MAP[number] == NONE)
    fatal("unsupported", "pipe %llu: only S, V, MTE2 and MTE3 of a vector core run here", (unsigned long long)number);
  return MAP[number];
}

static void see(Pipe pipe, const u32 *complete) {
  for (int q = 0; q < PIPES; q++) core->seen[pipe][q] = std::max(core->seen[pipe][q], complete[q]);
}

INTRINSIC hivm_SET_FLAG_IMM(u64 from, u64 to, u64 event) {
  const u8 a = pipe_of(from), b = pipe_of(to);
  event &= EVENTS - 1;
  scalar_step();
  step(Kind::SetFlag, "set_flag", a, b, event, 1, 0);
  memcpy(core->flag_seen[a][b][event], core->seen[a], sizeof core->seen[a]);
  core->flag_seen[a][b][event][a] = core->epoch[a];
  if (core->flag_set[a][b][event])
    report("flag", "set_flag %s->%s event %llu, which is already set", PIPE_NAMES[a], PIPE_NAMES[b],
           (unsigned long long)event);
  core->flag_set[a][b][event] = 1;
}

INTRINSIC hivm_WAIT_FLAG_IMM(u64 from, u64 to, u64 event) {
  const u8 a = pipe_of(from), b = pipe_of(to);
  event &= EVENTS - 1;
  scalar_step();
  step(Kind::WaitFlag, "wait_flag", a, b, event, 1, 0);
  if (!core->flag_set[a][b][event])
    fatal("flag", "wait_flag %s->%s event %llu, which nothing has set: the core would hang", PIPE_NAMES[a],
          PIPE_NAMES[b], (unsigned long long)event);
  core->flag_set[a][b][event] = 0;
  see((Pipe)b, core->flag_seen[a][b][event]);
}

INTRINSIC hivm_BARRIER(u64 which) {
  const u8 pipe = pipe_of(which);
  scalar_step();
  step(Kind::Barrier, "pipe_barrier", pipe, 0, 0, 1, 0);
  if (pipe == PIPES)
    for (int p = 0; p < PIPES; p++) see((Pipe)p, core->epoch);
  else
    core->seen[pipe][pipe] = core->epoch[pipe];
}

// ---- scalar loads and stores, put before each by the lowering (lowering.py) and the template cleaner (templates.py)
INTRINSIC device_scalar_ub(u8 *start, u64 bytes, u64 write) {
  const char *name = write ? "scalar store" : "scalar load";
  issue(S);
  touch(name, S, start, bytes, write);
  if (write) set_taint(start, bytes, take_scalar_taint() ? 0xff : 0);
  else core->scalar_taint |= any_taint(start, bytes);
  step(Kind::ScalarUb, name, S, 0, 0, 1, 0);
}
INTRINSIC device_scalar_gm(u8 *start, u64 bytes, u64 write) {
  gm_access(write ? "scalar store" : "scalar load", start, bytes, write);
  if (write && take_scalar_taint())
    report("poison", "scalar store to GM %p of what was made of bytes never written", (void *)start);
  step(Kind::ScalarGm, write ? "scalar store to GM" : "scalar load from GM", S, 0, 0, 1, 0);
}
// A load or store of the kernel's own body: unified buffer, global memory, or its stack. Outside a loop over elements a
// loaded scalar steers the kernel, so that it must not come from bytes never written.
INTRINSIC device_scalar(u8 *start, u64 bytes, u64 write) {
  if (in_ub(start)) {
    device_scalar_ub(start, bytes, write);
    if (!write && !core->element && take_scalar_taint())
      fatal("poison", "scalar load of UB %llu, never written", ub_offset(start));
    return;
  }
  const u8 *here = (const u8 *)__builtin_frame_address(0);
  constexpr u64 NEAR = 1 << 20; // the body's frame is the caller's, and holds descriptors and small buffers only
  if (start >= here && start < here + NEAR) return;
  device_scalar_gm(start, bytes, write);
}

INTRINSIC device_at(u32 line) {
  core->line = line;
  if (!core->element) core->scalar_taint = false;
  core->element = false;
}
INTRINSIC device_element() { core->element = true; }
INTRINSIC device_lanes(s64 lanes) { core->lanes_left = lanes; }
extern "C" u64 device_ub() { return (u64)core->ub; }

// ---- running
static void start_program(s64 program) {
  core->program = program;
  core->line = 0;
  core->ctrl = core->launch->assume.f16_saturates ? 0 : CTRL_START;
  core->mask[0] = core->mask[1] = ~0ull;
  core->lanes_left = -1;
  core->scalar_taint = core->element = false;
  core->pad = core->extreme = core->extreme_taint = 0;
  memset(core->compare, 0, sizeof core->compare);
  memset(core->compare_taint, 0xff, sizeof core->compare_taint);
  memset(core->va, 0, sizeof core->va);
  memset(core->ub, core->launch->assume.fill, core->ub_bytes);
  memset(core->taint, core->launch->checks ? 0xff : 0, core->ub_bytes);
  memset(core->tainted, core->launch->checks ? 1 : 0, core->ub_bytes / BLOCK);
  memset(core->flag_set, 0, sizeof core->flag_set);
  // Epochs go on counting over programs; what an earlier one did is complete.
  if (*std::max_element(core->epoch, core->epoch + PIPES) > 1u << 31) {
    memset(core->access, 0, core->ub_bytes / BLOCK * sizeof(Access));
    memset(core->epoch, 0, sizeof core->epoch);
  }
  for (auto &seen : core->seen) memcpy(seen, core->epoch, sizeof core->epoch);
  core->random = 88172645463325252ull + program;
  core->events.clear();
}

static void finish_program() {
  for (int a = 0; a < PIPES; a++)
    for (int b = 0; b < PIPES; b++)
      for (u64 event = 0; event < EVENTS; event++)
        if (core->flag_set[a][b][event])
          report("flag", "flag %s->%s event %llu is still set at the end of the kernel", PIPE_NAMES[a], PIPE_NAMES[b],
                 (unsigned long long)event);
  const u64 expected = core->launch->assume.f16_saturates ? 0 : CTRL_START;
  if ((core->ctrl ^ expected) & ~(1ull << CTRL_COUNT))
    report("register", "CTRL is %llx at the end of the kernel instead of %llx", (unsigned long long)core->ctrl,
           (unsigned long long)expected);
}

extern "C" Core *device_core_new(u64 ub_bytes) {
  Core *made = new (std::nothrow) Core();
  if (!made) return nullptr;
  const u64 blocks = ub_bytes / BLOCK, access = blocks * sizeof(Access);
  // Vector instructions take 32-byte aligned addresses, so the buffer must start on one.
  made->storage = (u8 *)aligned_alloc(4096, (2 * ub_bytes + access + blocks + 8191) / 4096 * 4096);
  if (!made->storage) {
    delete made;
    return nullptr;
  }
  memset(made->storage, 0, 2 * ub_bytes + access + blocks);
  made->ub = made->storage;
  made->taint = made->ub + ub_bytes;
  made->access = (Access *)(made->taint + ub_bytes);
  made->tainted = (u8 *)made->access + access;
  made->ub_bytes = ub_bytes;
  return made;
}
extern "C" void device_core_free(Core *gone) {
  if (!gone) return;
  free(gone->storage);
  delete gone;
}

extern "C" void device_begin(Core *fresh) {
  fresh->report_count = 0;
  fresh->streams.clear();
  fresh->stream_programs.clear();
}

// Takes up to `limit` programs from the launch's counter, fewer if none is left or a core has something to report.
// Returns how many it ran.
extern "C" u64 device_run(Launch *launch, Core *on, void (*entry)(void *), void *arguments, u64 limit) {
  core = on;
  core->launch = launch;
  u64 ran = 0;
  while (ran < limit && !__atomic_load_n(&launch->stopped, __ATOMIC_RELAXED)) {
    const u64 index = __atomic_fetch_add(&launch->next, 1, __ATOMIC_RELAXED);
    if (index >= launch->program_count) break;
    ran++;
    start_program(launch->programs[index]);
    if (!setjmp(core->leave)) {
      entry(arguments);
      if (launch->checks) finish_program();
    }
    if (core->report_count) __atomic_store_n(&launch->stopped, 1, __ATOMIC_RELAXED);
    if (launch->record) {
      core->streams.push_back(std::move(core->events));
      core->stream_programs.push_back(core->program);
      core->events = {};
    }
  }
  core = nullptr;
  return ran;
}

extern "C" u64 device_report_count(const Core *of) { return of->report_count; }
extern "C" const Report *device_report(const Core *of, u64 index) { return &of->reports[index]; }
extern "C" u64 device_stream_count(const Core *of) { return of->streams.size(); }
extern "C" const Event *device_stream(const Core *of, u64 index, u64 *length, s64 *program) {
  *length = of->streams[index].size();
  *program = of->stream_programs[index];
  return of->streams[index].data();
}
