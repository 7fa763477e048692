#include "model/fingerprint.h"

#include <gtest/gtest.h>

#include <set>
#include <type_traits>

namespace quire {
namespace {

FingerprintParts some_parts() {
  FingerprintParts parts;
  parts.arch = "llama";
  parts.formats = {"q8_0", "f32"};
  parts.k_codec = parts.v_codec = "f16";
  parts.content = {1, 2};
  parts.tokenizer = {3, 4};
  parts.numerics = 3;
  parts.config.rope.freq = {7, 8};
  parts.config.is_local = {true, false};
  return parts;
}

template <class T>
void change(T& field) {
  if constexpr (std::is_enum_v<T>) {
    field = static_cast<T>(static_cast<int>(field) + 1);
  } else if constexpr (std::is_same_v<T, bool>) {
    field = !field;
  } else if constexpr (std::is_arithmetic_v<T>) {
    field += 1;
  } else {
    field.push_back({});
  }
}

void check_every_field(const FingerprintParts& plain, int least) {
  std::set<uint64_t> seen = {fingerprint(plain)};
  int n_fields = 0;
  each_field(plain.config, [&](const auto&) { ++n_fields; });
  EXPECT_GE(n_fields, least);
  for (int wanted = 0; wanted < n_fields; ++wanted) {
    FingerprintParts parts = plain;
    int i = 0;
    each_field(parts.config, [&](auto& field) {
      if (i++ == wanted) change(field);
    });
    EXPECT_TRUE(seen.insert(fingerprint(parts)).second) << "field " << wanted;
  }
}

TEST(Fingerprint, EveryHyperParameterCounts) {
  FingerprintParts parts = some_parts();
  check_every_field(parts, 28);
  parts.config.is_state = {true, false};
  check_every_field(parts, 34);
  parts.config.has_unit = {true, false};
  check_every_field(parts, 36);
  parts.config.state.n_channels = 64;
  parts.config.state.has_delta_rule = true;
  parts.config.state.scales.b = parts.config.scales.gate = 0.5F;
  parts.config.n_positions = 32;
  parts.config.turns_first = parts.config.share_on_input = true;
  parts.config.query_scale.by = 0.5;
  parts.config.xielu = {{0.5F, 0.25F, 0.125F}};
  parts.config.jitter = parts.config.mixture_scale = parts.config.value_scale = 0.5F;
  parts.config.local.n_kv = parts.config.n_readers = 2;
  parts.config.most_slope_bits = 8;
  parts.config.state_sum.kept = 3.5F;
  parts.config.n_shared_blocks = 2;
  parts.config.state.fade_bound = -5.0F;
  check_every_field(parts, 88);
  parts = some_parts();
  parts.config.is_state = {true, false};
  parts.config.state.n_step_rank = 2;
  check_every_field(parts, 37);
  parts = some_parts();
  parts.config.is_state = {true, false};
  parts.config.state.least_step = 0.5F;
  check_every_field(parts, 36);
}

TEST(Fingerprint, WhatListsHoldCounts) {
  FingerprintParts parts = some_parts();
  const uint64_t plain = fingerprint(parts);
  parts.config.rope.freq[1] += 1;
  EXPECT_NE(fingerprint(parts), plain);
  parts = some_parts();
  parts.config.is_local = {false, true};
  EXPECT_NE(fingerprint(parts), plain);
}

TEST(Fingerprint, EveryOtherInputCounts) {
  std::set<uint64_t> seen = {fingerprint(some_parts())};
  const auto expect_another = [&](auto edit, const char* what) {
    FingerprintParts parts = some_parts();
    edit(parts);
    EXPECT_TRUE(seen.insert(fingerprint(parts)).second) << what;
  };
  expect_another([](auto& p) { p.arch = "qwen2"; }, "architecture");
  expect_another([](auto& p) { p.formats[1] = "bf16"; }, "a tensor's format");
  expect_another([](auto& p) { p.k_codec = "q8"; }, "codec of keys");
  expect_another([](auto& p) { p.shift = {4, 64}; }, "a context shift");
  expect_another([](auto& p) { p.shift = {5, 64}; }, "its sinks");
  expect_another([](auto& p) { p.shift = {4, 65}; }, "its window");
  expect_another([](auto& p) { p.v_codec = "q8"; }, "codec of values");
  expect_another([](auto& p) { p.content.lo += 1; }, "the tensors' bytes");
  expect_another([](auto& p) { p.content.hi += 1; }, "the tensors' bytes");
  expect_another([](auto& p) { p.tokenizer.hi += 1; }, "tokenizer");
  expect_another([](auto& p) { p.numerics += 1; }, "numerics");
  for (int i = 0; i < 4; ++i) {
    LatentSizes sizes{.n_kv = 2, .n_q = 3, .k_dim = 4, .v_dim = 5};
    int* const fields[] = {&sizes.n_kv, &sizes.n_q, &sizes.k_dim, &sizes.v_dim};
    *fields[i] += 10;
    expect_another([&](auto& p) { p.config.latent = sizes; }, "sizes of latents");
  }
}

// It stands in names that last: a change here makes everything that was stored under them unknown.
TEST(Fingerprint, IsTheSameInEveryProcess) { EXPECT_EQ(fingerprint(some_parts()), 11272889591391042161U); }

}  // namespace
}  // namespace quire
