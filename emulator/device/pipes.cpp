// The cycle model: replays the steps of a program on four pipes that run in order and meet at flags and barriers.
#include "core.h"
#include <algorithm>

void step(Kind kind, const char *name, u8 pipe, u8 detail, u8 extra, u64 amount, u64 bytes) {
  if (!core->launch->record) return;
  // Scalar work between two steps is one entry, however long a loop it is.
  if (kind >= Kind::Scalar && kind <= Kind::ScalarGm && !core->events.empty()) {
    Event &last = core->events.back();
    if (last.kind == kind && last.line == core->line && last.amount < 1u << 31) {
      last.amount += (u32)amount;
      return;
    }
  }
  core->events.push_back({kind, pipe, detail, extra, core->line, (u32)amount, (u32)bytes, name});
}

// The names the cost table is asked for, in the order of the array that device_replay takes.
extern "C" const char *device_cost_names() {
  return "vadd vsub vmul vdiv vmax vmin vmaxs vmins vmuls vadds vln vexp vand vor vabs vsel vsqrt vrec vrsqrt vrelu "
         "vcopy vdup vnot vconv vcmp vshift vreducev2 vgather vnchwconv vcmax vother "
         "dma_latency dma_bytes_per_cycle dma_issue burst_executed scalar_access scalar_gm scalar_issue "
         "count_mode_floor";
}

struct Costs {
  struct {
    double head, slope, tail;
  } vector[CLASSES];
  double dma_latency, dma_bytes_per_cycle, dma_issue, burst, scalar_access, scalar_gm, scalar_issue, count_mode_floor;
};

struct Slice {
  double start, duration;
  const char *name;
  u32 line, pipe;
};

struct Result {
  double cycles, busy[PIPES], loaded, stored, by_class[CLASSES], dma_instructions[2], bursts[2], scalar_ub, scalar_gm;
};

extern "C" u64 device_cost_count() { return sizeof(Costs) / sizeof(double); }
extern "C" u64 device_result_count() { return sizeof(Result) / sizeof(double); }

// Smallest unit of global memory a burst moves.
constexpr double BURST_BYTES = 32;

extern "C" u64 device_replay(const Event *events, u64 count, const Costs *costs, Result *out, Slice *slices, u64 room) {
  double now[PIPES] = {}, tail[PIPES] = {}, flag[PIPES][PIPES][EVENTS] = {};
  bool running[PIPES] = {}; // a vector instruction or DMA is on its way through the pipe
  u64 written = 0;
  *out = Result();
  const auto spend = [&](const Event &e, u8 pipe, double cycles) {
    if (slices && written < room && cycles > 0) slices[written++] = {now[pipe], cycles, e.name, e.line, pipe};
    now[pipe] += cycles;
    out->busy[pipe] += cycles;
  };
  const auto drain = [&](u8 pipe) {
    if (!running[pipe]) return;
    now[pipe] += tail[pipe];
    if (pipe == V) out->busy[V] += tail[V]; // a DMA's tail is latency: the pipe itself could take the next one
    running[pipe] = false;
  };
  for (u64 i = 0; i < count; i++) {
    const Event &e = events[i];
    switch (e.kind) {
    case Kind::Scalar: spend(e, S, costs->scalar_issue * e.amount); break;
    case Kind::ScalarUb:
      spend(e, S, costs->scalar_access * e.amount);
      out->scalar_ub += e.amount;
      break;
    case Kind::ScalarGm:
      spend(e, S, costs->scalar_gm * e.amount);
      out->scalar_gm += e.amount;
      break;
    case Kind::Vector: {
      const auto &c = costs->vector[e.detail];
      now[V] = std::max(now[V], now[S]);
      const double before = now[V];
      spend(e, V, (running[V] ? 0 : c.head) + c.slope * e.amount + (e.extra ? costs->count_mode_floor : 0));
      out->by_class[e.detail] += now[V] - before;
      tail[V] = c.tail;
      running[V] = true;
      break;
    }
    case Kind::Dma: {
      // So many bytes a cycle, and at least `burst` cycles a burst; the pipe takes one instruction every dma_issue
      // cycles at most. The latency is seen by whoever waits for the data, not by the next instruction.
      const double bytes = (double)e.amount * std::max<double>(e.bytes, BURST_BYTES);
      const double transfer = std::max(bytes / costs->dma_bytes_per_cycle, e.amount * costs->burst);
      const double occupied = std::max(costs->dma_issue, transfer);
      now[e.pipe] = std::max(now[e.pipe], now[S]);
      spend(e, e.pipe, occupied);
      tail[e.pipe] = std::max(0.0, costs->dma_latency + transfer - occupied);
      running[e.pipe] = true;
      (e.pipe == MTE2 ? out->loaded : out->stored) += bytes;
      out->dma_instructions[e.pipe == MTE3] += 1;
      out->bursts[e.pipe == MTE3] += e.amount;
      break;
    }
    case Kind::SetFlag:
      if (e.pipe == V) drain(V);
      flag[e.pipe][e.detail][e.extra] = std::max(now[e.pipe] + (running[e.pipe] ? tail[e.pipe] : 0), now[S]);
      break;
    case Kind::WaitFlag:
      if (e.detail == V) drain(V);
      now[e.detail] = std::max(now[e.detail], flag[e.pipe][e.detail][e.extra]);
      break;
    case Kind::Barrier:
      if (e.pipe != PIPES) {
        drain(e.pipe);
        break;
      }
      for (u8 p = 0; p < PIPES; p++) drain(p);
      const double latest = *std::max_element(now, now + PIPES);
      std::fill(now, now + PIPES, latest);
      break;
    }
  }
  for (u8 p = 0; p < PIPES; p++) drain(p);
  out->cycles = *std::max_element(now, now + PIPES);
  return written;
}

// Sizes of the structures that Python mirrors, checked when the library is loaded.
extern "C" u64 device_sizes(u64 which) {
  constexpr u64 SIZES[] = {sizeof(Launch), sizeof(Report), sizeof(Event), sizeof(Slice)};
  return which < 4 ? SIZES[which] : 0;
}
