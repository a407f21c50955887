// Moves: DMA between global memory and the unified buffer, copies, broadcasts, packing, gathering, transposing.
#include "lanes.h"
#include <mutex>

#define INTRINSIC extern "C" void

// Copies bytes within the unified buffer, and with them which bits were never written.
static void copy(u8 *dst, const u8 *src, u64 bytes) {
  if (any_taint(src, bytes)) {
    const std::vector<u8> bits(taint_at(src), taint_at(src) + bytes);
    put_taint(dst, bits.data(), bytes);
  } else {
    set_taint(dst, bytes, 0);
  }
  memmove(dst, src, bytes);
}

// ---- global memory to the unified buffer: bursts of `bytes`, each padded on the left and right by `pad`
INTRINSIC hivm_SET_MOV_PAD_VAL(u64 value) {
  scalar_step();
  core->pad = value;
}

template <u64 ELEMENT> static void load_gm(const char *name, u8 *dst, u8 *src, u64 shape, u64 gaps) {
  const u64 bursts = (shape >> 4) & 4095, bytes = (shape >> 16) & 2097151;
  const u64 left = ((shape >> 48) & 63) * ELEMENT, right = ((shape >> 54) & 63) * ELEMENT;
  const u64 src_gap = gaps & 0xffffffff, dst_gap = gaps >> 32;
  const u64 used = left + bytes + right, row = (used + BLOCK - 1) / BLOCK * BLOCK;
  aligned(name, dst);
  issue(MTE2);
  for (u64 i = 0; i < bursts && bytes; i++) {
    u8 *to = dst + i * (row + dst_gap * BLOCK);
    const u8 *from = src + i * (bytes + src_gap);
    touch(name, MTE2, to, row, true);
    gm_access(name, from, bytes, false);
    for (u64 k = 0; k < left; k += ELEMENT) memcpy(to + k, &core->pad, ELEMENT);
    memcpy(to + left, from, bytes);
    for (u64 k = left + bytes; k < used; k += ELEMENT) memcpy(to + k, &core->pad, ELEMENT);
    set_taint(to, used, 0);
    // What lies between a burst and the next multiple of 32 is unspecified.
    memset(to + used, core->launch->assume.fill, row - used);
    set_taint(to + used, row - used, 0xff);
  }
  dma_step(name, MTE2, bursts, bytes);
}
INTRINSIC hivm_MOV_OUT_TO_UB_ALIGN_b8_V220(u8 *d, u8 *s, u64 a, u64 b) { load_gm<1>("MOV_OUT_TO_UB_b8", d, s, a, b); }
INTRINSIC hivm_MOV_OUT_TO_UB_ALIGN_b16_V220(u8 *d, u8 *s, u64 a, u64 b) { load_gm<2>("MOV_OUT_TO_UB_b16", d, s, a, b); }
INTRINSIC hivm_MOV_OUT_TO_UB_ALIGN_b32_V220(u8 *d, u8 *s, u64 a, u64 b) { load_gm<4>("MOV_OUT_TO_UB_b32", d, s, a, b); }

// ---- unified buffer to global memory; CTRL[8:6] makes it an atomic update
static std::mutex updating;

template <class T> static void add(u8 *to, const u8 *from, u64 bytes) {
  const std::lock_guard<std::mutex> guard(updating);
  for (u64 i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) store<T>(to + i, load<T>(to + i) + load<T>(from + i));
}

static void store_gm(const char *name, u8 *dst, u8 *src, u64 shape, u64 gaps) {
  const u64 bursts = (shape >> 4) & 4095, bytes = (shape >> 16) & 2097151;
  const u64 src_gap = gaps & 0xffffffff, dst_gap = gaps >> 32;
  const u64 row = (bytes + BLOCK - 1) / BLOCK * BLOCK + src_gap * BLOCK;
  const u64 update = (core->ctrl >> 6) & 7;
  aligned(name, src);
  issue(MTE3);
  for (u64 i = 0; i < bursts && bytes; i++) {
    const u8 *from = src + i * row;
    u8 *to = dst + i * (bytes + dst_gap);
    touch(name, MTE3, from, bytes, false);
    gm_access(name, to, bytes, true);
    if (any_taint(from, bytes)) {
      u64 first = 0;
      while (!*taint_at(from + first)) first++;
      report("poison", "%s stores UB %llu to GM %p: that byte was never written", name, ub_offset(from + first),
             (void *)(to + first));
    }
    switch (update) {
    case 0: memcpy(to, from, bytes); break;
    case 1: add<f32>(to, from, bytes); break;
    case 2: add<f16>(to, from, bytes); break;
    case 3: add<s16>(to, from, bytes); break;
    case 4: add<s32>(to, from, bytes); break;
    case 5: add<s8>(to, from, bytes); break;
    default: fatal("unsupported", "atomic store type %llu", (unsigned long long)update);
    }
  }
  dma_step(name, MTE3, bursts, bytes);
}
INTRINSIC hivm_MOV_UB_TO_OUT_ALIGN_b8_V220(u8 *d, u8 *s, u64 a, u64 b) { store_gm("MOV_UB_TO_OUT_b8", d, s, a, b); }
INTRINSIC hivm_MOV_UB_TO_OUT_ALIGN_b16_V220(u8 *d, u8 *s, u64 a, u64 b) { store_gm("MOV_UB_TO_OUT_b16", d, s, a, b); }
INTRINSIC hivm_MOV_UB_TO_OUT_ALIGN_b32_V220(u8 *d, u8 *s, u64 a, u64 b) { store_gm("MOV_UB_TO_OUT_b32", d, s, a, b); }

INTRINSIC hivm_MOV_UB_TO_UB_v220(u8 *d, u8 *s, u64 c) {
  const u64 bursts = (c >> 4) & 4095, bytes = ((c >> 16) & 65535) * BLOCK;
  const u64 src_gap = ((c >> 32) & 65535) * BLOCK, dst_gap = ((c >> 48) & 65535) * BLOCK;
  const char *name = "MOV_UB_TO_UB";
  aligned(name, d);
  aligned(name, s);
  issue(V);
  for (u64 i = 0; i < bursts && bytes; i++) {
    touch(name, V, s + i * (bytes + src_gap), bytes, false);
    touch(name, V, d + i * (bytes + dst_gap), bytes, true);
    copy(d + i * (bytes + dst_gap), s + i * (bytes + src_gap), bytes);
  }
  vector_step(name, VCOPY, (bursts * bytes + REPEAT - 1) / REPEAT);
}

// ---- one value to every lane
template <class T> static void fill(const char *name, u8 *dst, T value, u64 config) {
  const Unary g(config);
  const Lanes lanes(g.repeats, REPEAT / sizeof(T));
  const Operand<T> d{dst, g.dst_block, g.dst_repeat};
  const u8 unknown = take_scalar_taint() ? 0xff : 0;
  issue(V);
  d.access(name, lanes, true);
  if (lanes.prefix && d.dense(lanes)) {
    for (u64 i = 0; i < lanes.total; i++) store<T>(dst + i * sizeof(T), value);
    set_taint(dst, lanes.total * sizeof(T), unknown);
  } else {
    for (u64 r = 0; r < lanes.repeats; r++)
      for (u64 e = 0; e < lanes.width; e++)
        if (lanes.active(r, e)) store(d.at(r, e), value), set_taint(d.at(r, e), sizeof(T), unknown);
  }
  vector_step(name, VDUP, lanes.repeats);
}
INTRINSIC hivm_MOVEV_f32(u8 *d, f32 v, u64 c) { fill<u32>("MOVEV_f32", d, bits_as<u32>(v), c); }
INTRINSIC hivm_MOVEV_s32(u8 *d, u64 v, u64 c) { fill<u32>("MOVEV_s32", d, (u32)v, c); }
INTRINSIC hivm_MOVEV_u32(u8 *d, u64 v, u64 c) { fill<u32>("MOVEV_u32", d, (u32)v, c); }
INTRINSIC hivm_MOVEV_s16(u8 *d, u64 v, u64 c) { fill<u16>("MOVEV_s16", d, (u16)v, c); }
INTRINSIC hivm_MOVEV_u16(u8 *d, u64 v, u64 c) { fill<u16>("MOVEV_u16", d, (u16)v, c); }
// bfloat travels like half in the calling convention, and only its bits matter here
INTRINSIC hivm_MOVEV_f16(u8 *d, f16 v, u64 c) { fill<u16>("MOVEV_f16", d, bits_as<u16>(v), c); }
INTRINSIC hivm_MOVEV_bf16(u8 *d, f16 v, u64 c) { fill<u16>("MOVEV_bf16", d, bits_as<u16>(v), c); }

// ---- copy: in count mode the count is per repeat and the repeat field stays in force (SEMANTICS.md)
template <class T> static void vcopy(const char *name, u8 *dst, u8 *src, u64 config) {
  const Unary g(config);
  const u64 width = REPEAT / sizeof(T), n = count_mode() ? core->mask[0] & 0xffffffff : width;
  const Operand<T> s{src, g.src_block, g.src_repeat}, d{dst, g.dst_block, g.dst_repeat};
  const Lanes norm(1, width);
  aligned(name, dst);
  aligned(name, src);
  issue(V);
  for (u64 r = 0; r < g.repeats; r++) {
    const bool whole = count_mode() || norm.prefix;
    const u64 per = whole ? s.PER_BLOCK : 1;
    for (int writing = 0; writing < 2; writing++)
      for (u64 e = 0; e < n; e += per)
        if (whole || norm.active(0, e))
          touch(name, V, (writing ? d : s).at(r, e), std::min(per, n - e) * sizeof(T), writing);
    for (u64 e = 0; e < n; e += per)
      if (whole || norm.active(0, e)) copy(d.at(r, e), s.at(r, e), std::min(per, n - e) * sizeof(T));
  }
  vector_step(name, VCOPY, g.repeats * ((n + width - 1) / width));
}
INTRINSIC hivm_VCOPY_u32(u8 *d, u8 *s, u64 c) { vcopy<u32>("VCOPY_u32", d, s, c); }
INTRINSIC hivm_VCOPY_u16(u8 *d, u8 *s, u64 c) { vcopy<u16>("VCOPY_u16", d, s, c); }

// ---- eight elements per repeat, each filling one block
template <class T> static void broadcast_blocks(const char *name, u8 *dst, u8 *src, u64 config) {
  const Unary g(config);
  aligned(name, dst);
  aligned(name, src);
  issue(V);
  touch(name, V, src, g.repeats * 8 * sizeof(T), false);
  for (u64 r = 0; r < g.repeats; r++)
    for (u64 k = 0; k < 8; k++) {
      const u8 *from = src + (r * 8 + k) * sizeof(T);
      u8 *to = dst + (r * g.dst_repeat + k * g.dst_block) * BLOCK;
      touch(name, V, to, BLOCK, true);
      const T value = load<T>(from);
      const bool tainted = any_taint(from, sizeof(T));
      for (u64 e = 0; e < BLOCK / sizeof(T); e++) store(to + e * sizeof(T), value);
      set_taint(to, BLOCK, tainted ? 0xff : 0);
    }
  vector_step(name, VOTHER, g.repeats);
}
INTRINSIC hivm_VBRCB_b32(u8 *d, u8 *s, u64 c) { broadcast_blocks<u32>("VBRCB_b32", d, s, c); }
INTRINSIC hivm_VBRCB_b16(u8 *d, u8 *s, u64 c) { broadcast_blocks<u16>("VBRCB_b16", d, s, c); }

// ---- keeps the elements a pattern selects, packed: 1, 2 of 2; 3..6 of 4; 7 all; 0 by a bit mask from `mask`.
// Norm mode: 256 bytes a repeat, mask register ignored. Count mode: MASK elements a repeat, repeat field in force.
template <class T> static void pack(const char *name, u8 *dst, u8 *src, u8 *mask, u64 c) {
  const u64 width = REPEAT / sizeof(T), per = BLOCK / sizeof(T);
  const u64 repeats = (c & 255) | (c >> 56) << 8, block = (c >> 8) & 255, pattern = (c >> 16) & 255;
  const u64 src_repeat = (c >> 24) & 65535, mask_repeat = (c >> 40) & 65535;
  const u64 n = count_mode() ? core->mask[0] & 0xffffffff : width;
  if (pattern > 7) fatal("unsupported", "%s pattern %llu", name, (unsigned long long)pattern);
  aligned(name, dst);
  aligned(name, src);
  issue(V);
  std::vector<T> kept;
  std::vector<Bits<T>> kept_taint;
  bool tainted = false;
  for (u64 r = 0; r < repeats; r++) {
    const u8 *row = src + r * src_repeat * BLOCK, *bits = mask + r * mask_repeat * BLOCK;
    for (u64 e = 0; e < n; e += per)
      touch(name, V, row + e / per * block * BLOCK, std::min(per, n - e) * sizeof(T), false);
    if (!pattern) {
      touch(name, V, bits, (n + 7) / 8, false);
      if (any_taint(bits, (n + 7) / 8)) report("poison", "%s selects by bits that were never written", name);
    }
    for (u64 e = 0; e < n; e++) {
      const bool keep = pattern == 0   ? bit(bits[e / 8], e % 8)
                        : pattern <= 2 ? e % 2 == pattern - 1
                        : pattern <= 6 ? e % 4 == pattern - 3
                                       : true;
      if (!keep) continue;
      const u8 *from = row + e / per * block * BLOCK + e % per * sizeof(T);
      kept.push_back(load<T>(from));
      kept_taint.push_back(core->launch->checks ? taint<T>(from) : 0);
      tainted |= kept_taint.back() != 0;
    }
  }
  const u64 bytes = kept.size() * sizeof(T);
  touch(name, V, dst, bytes, true);
  memcpy(dst, kept.data(), bytes);
  if (tainted) put_taint(dst, kept_taint.data(), bytes);
  else set_taint(dst, bytes, 0);
  vector_step(name, VREDUCEV2, repeats * ((n + width - 1) / width));
}
INTRINSIC hivm_VREDUCEv2_b32(u8 *d, u8 *s, u8 *m, u64 c) { pack<u32>("VREDUCEv2_b32", d, s, m, c); }
INTRINSIC hivm_VREDUCEv2_b16(u8 *d, u8 *s, u8 *m, u64 c) { pack<u16>("VREDUCEv2_b16", d, s, m, c); }

// ---- element at UB byte address config[31:0] + offset, an unsigned 32-bit byte offset per lane
template <class T> static void gather(const char *name, u8 *dst, u8 *offsets, u64 config) {
  const Lanes lanes(config >> 56, REPEAT / sizeof(T), false);
  const u64 n = lanes.total;
  aligned(name, dst);
  aligned(name, offsets);
  issue(V);
  touch(name, V, offsets, n * 4, false);
  if (any_taint(offsets, n * 4)) fatal("poison", "%s takes addresses from bytes that were never written", name);
  std::vector<T> got(n);
  std::vector<Bits<T>> got_taint(n);
  bool tainted = false;
  for (u64 e = 0; e < n; e++) {
    const u32 address = load<u32>(offsets + e * 4) + (u32)config - (u32)(u64)core->ub;
    if (address + sizeof(T) > core->ub_bytes)
      fatal("ub bounds", "%s lane %llu reads UB %u, outside 0..%llu", name, (unsigned long long)e, address,
            (unsigned long long)core->ub_bytes);
    if (address % sizeof(T)) report("alignment", "%s lane %llu reads UB %u", name, (unsigned long long)e, address);
    touch(name, V, core->ub + address, sizeof(T), false);
    got[e] = load<T>(core->ub + address);
    got_taint[e] = core->launch->checks ? taint<T>(core->ub + address) : 0;
    tainted |= got_taint[e] != 0;
  }
  touch(name, V, dst, n * sizeof(T), true);
  memcpy(dst, got.data(), n * sizeof(T));
  if (tainted) put_taint(dst, got_taint.data(), n * sizeof(T));
  else set_taint(dst, n * sizeof(T), 0);
  vector_step(name, VGATHER, lanes.repeats);
}
INTRINSIC hivm_VGATHER_b32(u8 *d, u8 *o, u64 c) { gather<u32>("VGATHER_b32", d, o, c); }
INTRINSIC hivm_VGATHER_b16(u8 *d, u8 *o, u64 c) { gather<u16>("VGATHER_b16", d, o, c); }

// ---- 16 source blocks to 16 destination blocks. A VA register holds 8 block addresses; a list is two of them.
INTRINSIC hivm_MOVEVA(u64 reg, u64 index, u64 first, u64 second) {
  scalar_step();
  core->va[reg & 7][index & 7] = first;
  core->va[reg & 7][(index + 1) & 7] = second;
}

static void permute(int element, u8 out[16][32], const u8 in[16][32], int dst_half, int src_half) {
  for (int e = 0; e < 16; e++) {
    if (element == 1)
      for (int k = 0; k < 16; k++) out[e][k + 16 * dst_half] = in[k][e + 16 * src_half];
    else if (element == 2)
      for (int k = 0; k < 16; k++) memcpy(out[e] + 2 * k, in[k] + 2 * e, 2);
    else
      for (int k = 0; k < 8; k++) memcpy(out[e] + 4 * k, in[k + 8 * (e & 1)] + 4 * (e / 2), 4);
  }
}

static void transpose(const char *name, int element, u64 dst_list, u64 src_list, u64 c, int dst_half, int src_half) {
  const u64 repeats = c >> 56, dst_repeat = (c & 65535) * BLOCK, src_repeat = ((c >> 16) & 65535) * BLOCK;
  const u64 offset = element == 1 ? 16 * dst_half : 0, bytes = element == 1 ? 16 : 32;
  issue(V);
  for (u64 r = 0; r < repeats; r++) {
    const u64 step = repeats == 1 ? 1 : r; // one repeat adds the stride once: so the documentation; templates pass 0
    u8 in[16][32], out[16][32], in_taint[16][32], out_taint[16][32];
    u8 *src[16], *dst[16];
    for (int i = 0; i < 16; i++) {
      src[i] = (u8 *)core->va[(src_list + i / 8) & 7][i % 8] + step * src_repeat;
      dst[i] = (u8 *)core->va[(dst_list + i / 8) & 7][i % 8] + step * dst_repeat;
      aligned(name, src[i]);
      aligned(name, dst[i]);
      touch(name, V, src[i], BLOCK, false);
      if (!in_ub(dst[i])) touch(name, V, dst[i], BLOCK, true);
      memcpy(in[i], src[i], 32);
      memcpy(out[i], dst[i], 32);
      memcpy(in_taint[i], taint_at(src[i]), 32);
      memcpy(out_taint[i], taint_at(dst[i]), 32);
    }
    permute(element, out, in, dst_half, src_half);
    permute(element, out_taint, in_taint, dst_half, src_half);
    for (int i = 0; i < 16; i++) {
      touch(name, V, dst[i] + offset, bytes, true);
      memcpy(dst[i] + offset, out[i] + offset, bytes);
      put_taint(dst[i] + offset, out_taint[i] + offset, bytes);
    }
  }
  vector_step(name, VNCHWCONV, repeats);
}
INTRINSIC hivm_S_VNCHWCONV_b8(u64 d, u64 s, u64 c, u64 dst_half, u64 src_half) {
  transpose("VNCHWCONV_b8", 1, d, s, c, dst_half, src_half);
}
INTRINSIC hivm_S_VNCHWCONV_b16(u64 d, u64 s, u64 c) { transpose("VNCHWCONV_b16", 2, d, s, c, 0, 0); }
INTRINSIC hivm_S_VNCHWCONV_b32(u64 d, u64 s, u64 c) { transpose("VNCHWCONV_b32", 4, d, s, c, 0, 0); }
