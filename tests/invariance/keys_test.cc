// What a cached block is found by: the fingerprint of a model as it was loaded.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_ops.h"
#include "tests/support/tiny_model.h"

namespace quire {
namespace {

// K5 of the cache: what is cached under one model and codec is not for another.
TEST(InvarianceKeys, ModelsAndCodecsHaveFingerprintsOfTheirOwn) {
  const auto ops = make_cpu_ops(CpuOptions{.n_threads = 1, .isa = "", .pin = false});
  const auto fingerprint = [&](const TinyModel& tiny, std::string_view codec) {
    const auto model = tiny.load(**ops, codec);
    EXPECT_TRUE(model);
    return (*model)->info().fingerprint;
  };
  const TinyModel tiny(TinyShape{}, "q8_0", 5);
  const uint64_t plain = fingerprint(tiny, "f16");
  EXPECT_EQ(plain, fingerprint(TinyModel(TinyShape{}, "q8_0", 5), "f16"));
  EXPECT_NE(plain, fingerprint(tiny, "f32"));
  EXPECT_NE(plain, fingerprint(tiny, "q8"));
  EXPECT_NE(plain, fingerprint(TinyModel(TinyShape{}, "q8_0", 6), "f16"));
  EXPECT_NE(plain, fingerprint(TinyModel(TinyShape{}, "q4_0", 5), "f16"));
  EXPECT_NE(plain, fingerprint(TinyModel(TinyShape{.n_layers = 1}, "q8_0", 5), "f16"));
  for (const size_t t : {size_t{0}, tiny.file().tensors.size() - 1}) {  // the last bit of a tensor
    ModelFile file = tiny.file();
    std::vector<std::byte> bytes(file.tensors[t].data.begin(), file.tensors[t].data.end());
    bytes.back() ^= std::byte{1};
    file.tensors[t].data = bytes;
    LoadOptions options;
    options.k_codec = options.v_codec = find_kv_codec("f16");
    const auto model = load_model(file, **ops, options);
    ASSERT_TRUE(model);
    EXPECT_NE(plain, (*model)->info().fingerprint) << file.tensors[t].name;
  }
}

}  // namespace
}  // namespace quire
