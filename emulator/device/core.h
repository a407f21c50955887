// One vector core: its unified buffer, registers, pipes and what the checks remember. One Core per host thread.
#pragma once
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using f32 = float;
using f16 = _Float16;

// Pipes of a vector core. The intrinsics number them as the ISA does; `pipe_of` maps those numbers to these.
enum Pipe : u8 { S, V, MTE2, MTE3, PIPES };
extern const char *const PIPE_NAMES[PIPES];

constexpr u64 BLOCK = 32;       // bytes: what alignment, ordering and DMA tails are counted in
constexpr u64 REPEAT = 256;     // bytes one repeat of a vector instruction covers
constexpr u64 EVENTS = 8;       // flags per pair of pipes
constexpr u64 MAX_REPORTS = 16; // per core and launch; the first ones tell the story

// CTRL bits that the templates or the runtime use (public Ascend C reference, asc_set_ctrl).
constexpr u64 CTRL_F16_INF = 48, CTRL_COUNT = 56, CTRL_TRUNCATE = 59;
constexpr u64 CTRL_START = 1ull << CTRL_F16_INF; // what the A2 runtime sets before a kernel: f16 overflows to infinity

// Cost classes: the names the cost table uses, in the order pipes.cpp reads them.
enum Class : u8 {
  VADD, VSUB, VMUL, VDIV, VMAX, VMIN, VMAXS, VMINS, VMULS, VADDS, VLN, VEXP, VAND, VOR, VABS, VSEL, VSQRT, VREC,
  VRSQRT, VRELU, VCOPY, VDUP, VNOT, VCONV, VCMP, VSHIFT, VREDUCEV2, VGATHER, VNCHWCONV, VCMAX, VOTHER, CLASSES
};

enum class Kind : u8 { Vector, Dma, Scalar, ScalarUb, ScalarGm, SetFlag, WaitFlag, Barrier };

// One step of a program as the cycle model sees it: what ran on which pipe, not how long it took.
struct Event {
  Kind kind;
  u8 pipe;      // Vector, Dma: the pipe; SetFlag, WaitFlag: source pipe; Barrier: pipe or PIPES for all
  u8 detail;    // Vector: Class; SetFlag, WaitFlag: destination pipe
  u8 extra;     // Vector: 1 if the count-mode floor applies; flags: event id
  u32 line;     // line of the HIVM module
  u32 amount;   // Vector: repeats; Dma: bursts; Scalar*: how many
  u32 bytes;    // Dma: bytes per burst
  const char *name;
};

// What the checks remember of one 32-byte block of the unified buffer: who touched which of its bytes last.
struct Access {
  const char *writer, *reader[PIPES];
  u32 write_epoch, write_line, write_bytes, read_epoch[PIPES], read_line[PIPES], read_bytes[PIPES];
  u8 write_pipe;
};

struct Report {
  char check[24];
  char text[360];
  s64 program;
  u32 line;
};

struct Range {
  u8 *low, *high;
};

// What a documented or measured device might do instead of the default; tests run kernels under each of them.
struct Assumptions {
  s32 division;         // 0 exact, 1 random -1/0/+1 ulp, 2 one ulp away from zero, 3 one ulp toward zero
  s32 f16_saturates;    // CTRL[48] = 0: infinity becomes 65504, NaN becomes 0
  s32 int_saturates;    // CTRL[53] = 1: integer arithmetic saturates instead of wrapping
  s32 flush_subnormals; // float arithmetic takes and gives zero for subnormals
  s32 fill;             // byte the unified buffer holds before a program starts
};

// One launch: shared by the cores, read-only while they run but for the two counters.
struct Launch {
  const Range *gm;
  u64 gm_count;
  const s64 *programs; // program ids to run, in order
  u64 program_count;
  u64 ub_bytes;
  s32 checks; // 0: bounds only, so that the host is safe; 1: everything
  s32 record; // keep the event stream of every program
  Assumptions assume;
  u64 next;    // counter: first program not handed out
  s32 stopped; // a core met something it cannot continue after
};

struct Core {
  u8 *ub, *taint; // taint: one bit per bit of the unified buffer, set while that bit was never written
  u8 *tainted;    // one byte per block: whether any of its taint bits is set
  Access *access;
  u64 ub_bytes;
  u64 ctrl, mask[2], compare[2], compare_taint[2], pad, extreme, extreme_taint, va[8][8];
  // Scalars: a load of bytes never written taints what the same template call or loop turn makes of it, since templates
  // also broadcast rows that nobody stores. `element` is set where the kernel's own body works element by element.
  bool scalar_taint, element;
  s64 lanes_left; // elements the running template call has still to compare, or -1 (see compare.cpp)
  u32 epoch[PIPES], seen[PIPES][PIPES];
  u32 flag_seen[PIPES][PIPES][EVENTS][PIPES];
  u8 flag_set[PIPES][PIPES][EVENTS];
  s64 program;
  u32 line;
  const Launch *launch;
  u64 random;
  u64 report_count;
  Report reports[MAX_REPORTS];
  std::vector<Event> events;
  std::vector<std::vector<Event>> streams; // per program run on this core
  std::vector<s64> stream_programs;
  u8 *storage;
  jmp_buf leave;
};

// The pointer alone lives in thread-local storage; initial-exec keeps its access to one instruction.
extern thread_local Core *core __attribute__((tls_model("initial-exec")));

inline bool bit(u64 word, u64 index) { return (word >> index) & 1; }
inline bool count_mode() { return bit(core->ctrl, CTRL_COUNT); }

// checks.cpp
void report(const char *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
[[noreturn]] void fatal(const char *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
void issue(Pipe pipe);
void touch(const char *name, Pipe pipe, const void *start, u64 bytes, bool write);
void aligned(const char *name, const void *start);
void gm_access(const char *name, const void *start, u64 bytes, bool write);
bool any_taint(const void *start, u64 bytes);
void set_taint(const void *start, u64 bytes, u8 value);
void put_taint(const void *start, const void *bits, u64 bytes);
bool in_ub(const void *pointer);
inline bool take_scalar_taint() {
  const bool taken = core->scalar_taint;
  core->scalar_taint = false;
  return taken;
}
inline u8 *taint_at(const void *pointer) { return core->taint + ((const u8 *)pointer - core->ub); }
inline unsigned long long ub_offset(const void *pointer) { return (const u8 *)pointer - core->ub; }

// pipes.cpp
void step(Kind kind, const char *name, u8 pipe, u8 detail, u8 extra, u64 amount, u64 bytes);
inline void scalar_step(u64 amount = 1) { step(Kind::Scalar, "scalar", S, 0, 0, amount, 0); }
inline void vector_step(const char *name, Class cls, u64 repeats, bool floor = false) {
  scalar_step();
  step(Kind::Vector, name, V, cls, floor && count_mode() && core->mask[0] % 64, repeats, 0);
}
inline void dma_step(const char *name, Pipe pipe, u64 bursts, u64 bytes) {
  scalar_step();
  if (bursts && bytes) step(Kind::Dma, name, pipe, 0, 0, bursts, bytes);
}
