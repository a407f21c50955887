// Conversions: VCONV. Width-changing ones cover 256 bytes of the wider side per repeat.
#include "lanes.h"
#include <limits>

#define INTRINSIC extern "C" void

struct bf16 {
  u16 bits;
  operator f32() const { return bits_as<f32>((u32)bits << 16); }
};

static bool truncates() { return bit(core->ctrl, CTRL_TRUNCATE); }

// r to nearest even, a to nearest away from zero, f floor, c ceiling, z toward zero
template <char MODE> static f32 rounded(f32 x) {
  if constexpr (MODE == 'r') return std::nearbyint(x);
  if constexpr (MODE == 'a') return std::round(x);
  if constexpr (MODE == 'f') return std::floor(x);
  if constexpr (MODE == 'c') return std::ceil(x);
  return std::trunc(x);
}

// float -> int after rounding: CTRL[59] = 0 saturates and makes 0 of NaN, 1 keeps the low bits
template <class T> static T to_int(f32 x) {
  if (x != x) return 0;
  if (truncates() && std::fabs(x) < 9.2e18f) return (T)(s64)x;
  const f32 low = (f32)std::numeric_limits<T>::min(), high = (f32)std::numeric_limits<T>::max();
  return x <= low ? std::numeric_limits<T>::min() : x >= high ? std::numeric_limits<T>::max() : (T)x;
}

template <class T> static T narrower(s64 x) {
  if (truncates()) return (T)x;
  return (T)std::clamp<s64>(x, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
}

static bf16 nearest_bf16(f32 x) {
  u32 word = bits_as<u32>(x);
  if (x != x) return {0x7fc0};
  word += 0x7fff + ((word >> 16) & 1);
  return {(u16)(word >> 16)};
}

// Moves a result rounded to nearest even to the neighbour the mode asks for. `exact` holds the value without rounding.
template <char MODE, class D, class X> static D by_mode(X exact, D nearest) {
  if constexpr (MODE == 'r') return nearest;
  const long double value = exact, got = (f32)nearest;
  if (value != value || value == got) return nearest;
  const bool positive = value > 0, too_far = positive ? got > value : got < value;
  const auto next = [](D d, int away) { return bits_as<D>((Bits<D>)(bits_as<Bits<D>>(d) + away)); };
  const D inner = too_far ? next(nearest, -1) : nearest, outer = too_far ? nearest : next(nearest, 1);
  if constexpr (MODE == 'z') return inner;
  if constexpr (MODE == 'f') return positive ? inner : outer;
  if constexpr (MODE == 'c') return positive ? outer : inner;
  if constexpr (MODE == 'o') return bits_as<Bits<D>>(inner) & 1 ? inner : outer;
  return std::fabs((double)(value - (f32)inner)) == std::fabs((double)((f32)outer - value)) ? outer : nearest;
}

template <char MODE> static f32 from_s32(s32 x) { return by_mode<MODE>(x, (f32)x); }
template <char MODE> static f32 from_s64(s64 x) { return by_mode<MODE>(x, (f32)x); }
template <char MODE> static f16 half_from_s16(s16 x) { return half_result(by_mode<MODE>(x, (f16)(f32)x)); }
template <char MODE> static f16 half_from_f32(f32 x) { return half_result(by_mode<MODE>(x, (f16)x)); }
template <char MODE> static bf16 bf16_from_f32(f32 x) { return by_mode<MODE>(x, nearest_bf16(x)); }

#define CONVERT(NAME, D, A, EXPRESSION)                                                                                \
  INTRINSIC hivm_VCONV_##NAME##_v220(void *d, void *a, u64 c) {                                                        \
    vector_step("VCONV_" #NAME, VCONV, each<D, A>("VCONV_" #NAME, d, a, c, [](A x) -> D { return EXPRESSION; }));      \
  }
#define FIVE(FROM, TO, SUFFIX, D, A, OF)                                                                               \
  CONVERT(FROM##2##TO##r##SUFFIX, D, A, OF('r'))                                                                       \
  CONVERT(FROM##2##TO##a##SUFFIX, D, A, OF('a'))                                                                       \
  CONVERT(FROM##2##TO##f##SUFFIX, D, A, OF('f'))                                                                       \
  CONVERT(FROM##2##TO##c##SUFFIX, D, A, OF('c'))                                                                       \
  CONVERT(FROM##2##TO##z##SUFFIX, D, A, OF('z'))

#define ROUNDED(MODE) rounded<MODE>(x)
#define TO_S64(MODE) to_int<s64>(rounded<MODE>((f32)x))
#define TO_S32(MODE) to_int<s32>(rounded<MODE>((f32)x))
#define TO_S16(MODE) to_int<s16>(rounded<MODE>((f32)x))
#define TO_S8(MODE) to_int<s8>(rounded<MODE>((f32)x))
#define TO_U8(MODE) to_int<u8>(rounded<MODE>((f32)x))
#define FROM_S32(MODE) from_s32<MODE>(x)
#define FROM_S64(MODE) from_s64<MODE>(x)
#define HALF_S16(MODE) half_from_s16<MODE>(x)
#define HALF_F32(MODE) half_from_f32<MODE>(x)
#define BF16_F32(MODE) bf16_from_f32<MODE>(x)
FIVE(f32, f32, , f32, f32, ROUNDED)
FIVE(f32, s64, , s64, f32, TO_S64)
FIVE(f32, s32, , s32, f32, TO_S32)
FIVE(f32, s16, , s16, f32, TO_S16)
FIVE(f16, s32, , s32, f16, TO_S32)
FIVE(f16, s16, , s16, f16, TO_S16)
FIVE(f16, s8, , s8, f16, TO_S8)
FIVE(f16, u8, , u8, f16, TO_U8)
FIVE(bf16, s32, , s32, bf16, TO_S32)
FIVE(s32, f32, , f32, s32, FROM_S32)
FIVE(s64, f32, _1, f32, s64, FROM_S64)
FIVE(s16, f16, , f16, s16, HALF_S16)
FIVE(f32, f16, , f16, f32, HALF_F32)
FIVE(f32, bf16, , bf16, f32, BF16_F32)
CONVERT(f322f16o, f16, f32, half_from_f32<'o'>(x))
CONVERT(f162f32, f32, f16, (f32)x)
CONVERT(bf162f32, f32, bf16, (f32)x)
CONVERT(s162f32, f32, s16, (f32)x)
CONVERT(s82f16, f16, s8, (f16)x)
CONVERT(u82f16, f16, u8, (f16)x)
CONVERT(s322s64_1, s64, s32, (s64)x)
CONVERT(s322s16, s16, s32, narrower<s16>(x))
CONVERT(s642s32_1, s32, s64, narrower<s32>(x))
