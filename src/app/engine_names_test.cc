#include "app/engine_names.h"

#include <gtest/gtest.h>

#include "engine/limits.h"

namespace quire {
namespace {

TEST(EngineNames, AreThoseOfTheCommandLine) {
  const auto told = [](const EngineOptions& options) {
    const Status ok = check_options(options, 16);
    return ok ? "" : in_option_names(ok.error()).message;
  };
  EngineOptions right;
  right.n_ctx = 512;
  EXPECT_EQ(told(right), "");
  EngineOptions wrong = right;
  wrong.n_ctx = -4;
  EXPECT_EQ(told(wrong), "--ctx must be 2 to 268435456, got -4");
  wrong = right;
  wrong.step_target_ms = -1;
  EXPECT_EQ(told(wrong).substr(0, 41), "--step-target must be 0 to 60000, got -1.");
  wrong = right;
  wrong.max_queue = 0;
  EXPECT_EQ(told(wrong), "--max-queue must be 1 to 1048576, got 0");
  EXPECT_EQ(in_option_names({Code::io, "kv_disk: /x: cannot be written"}).message, "--kv-disk: /x: cannot be written");
  EXPECT_EQ(in_option_names({Code::io, "kv memory of 3 bytes"}).message, "kv memory of 3 bytes");
}

}  // namespace
}  // namespace quire
