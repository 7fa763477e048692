#include "io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "io/gguf_test_file.h"

namespace quire {
namespace {

using testing::HasSubstr;

// A file of this header and `n_data` bytes.
std::string file_of(std::string_view header, size_t n_data) {
  const uint64_t length = header.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof length);
  return out + std::string(header) + std::string(n_data, 'x');
}

Result<std::vector<SafeTensor>> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)));
}

std::string error_of(std::string_view header, size_t n_data) {
  const auto parsed = parse(file_of(header, n_data));
  return parsed ? "parsed" : parsed.error().message;
}

constexpr std::string_view kGood =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},)"
    R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"c":{"dtype":"F16","shape":[],"data_offsets":[28,30]}})";

TEST(Safetensors, ReadsTensorsSortedByName) {
  const auto parsed = parse(file_of(kGood, 30));
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->size(), 3U);
  const auto start = static_cast<int64_t>(8 + kGood.size());
  EXPECT_EQ((*parsed)[0].name, "a");
  EXPECT_EQ((*parsed)[0].dtype, "BF16");
  EXPECT_EQ((*parsed)[0].offset, start);
  EXPECT_EQ((*parsed)[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*parsed)[1].bytes, 24);
  EXPECT_EQ((*parsed)[2].shape, std::vector<int64_t>{});
  EXPECT_EQ((*parsed)[2].offset, start + 28);
}

TEST(Safetensors, RefusesLengthsBeyondTheFileOrTheLimit) {
  EXPECT_THAT(parse("1234567").error().message, HasSubstr("byte 0: the header's length takes 8 bytes, 7 are left"));
  for (const uint64_t length : {uint64_t{31}, uint64_t{1} << 60, ~uint64_t{0}, kMaxSafetensorsHeader + 1}) {
    std::string file(reinterpret_cast<const char*>(&length), sizeof length);
    file += std::string(30, ' ');
    const auto parsed = parse(file);
    ASSERT_FALSE(parsed) << length;
    EXPECT_THAT(parsed.error().message, HasSubstr(std::to_string(length)));
  }
}

TEST(Safetensors, RefusesWrongHeaders) {
  EXPECT_THAT(error_of("nonsense", 0), HasSubstr("byte 8: the header is no JSON"));
  EXPECT_THAT(error_of("[]", 0), HasSubstr("must be a JSON object"));
  EXPECT_THAT(error_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{}})", 1), HasSubstr("duplicate"));
  EXPECT_THAT(error_of(R"({"__metadata__":{"a":1}})", 0), HasSubstr("__metadata__"));
  EXPECT_THAT(error_of(R"({"__metadata__":"a"})", 0), HasSubstr("__metadata__"));
  EXPECT_THAT(error_of(std::string(100, '[') + std::string(100, ']'), 0), HasSubstr("nested deeper"));
}

std::string tensor(std::string_view fields) { return "{\"t\":{" + std::string(fields) + "}}"; }

TEST(Safetensors, RefusesWrongTensors) {
  EXPECT_THAT(error_of(R"({"t":7})", 0), HasSubstr("tensor \"t\": dtype must be a string"));
  EXPECT_THAT(error_of(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1), HasSubstr("name is empty"));
  EXPECT_THAT(error_of(tensor(R"("dtype":"F5","shape":[1],"data_offsets":[0,1])"), 1), HasSubstr("\"F5\" is unknown"));
  for (const char* shape : {"7", "[0]", "[-1]", "[1.5]", "[\"1\"]", "[4294967296,4294967296]", "[1,1,1,1,1,1,1,1,1]"}) {
    const std::string fields = std::string(R"("dtype":"U8","data_offsets":[0,1],"shape":)") + shape;
    EXPECT_THAT(error_of(tensor(fields), 1), HasSubstr("shape must be")) << shape;
  }
  for (const char* range : {"7", "[0]", "[0,1,2]", "[1,0]", "[-1,0]", "[0,2]", "[0,1e30]", "[9223372036854775807,1]"}) {
    const std::string fields = std::string(R"("dtype":"U8","shape":[1],"data_offsets":)") + range;
    EXPECT_THAT(error_of(tensor(fields), 1), HasSubstr("data_offsets must be")) << range;
  }
  EXPECT_THAT(error_of(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,3])"), 3),
              HasSubstr("do not take 3 bytes"));
  EXPECT_THAT(error_of(tensor(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"), 0),
              HasSubstr("do not take 0 bytes"));
}

TEST(Safetensors, RefusesOverlapsHolesAndLeftovers) {
  const auto two = [](std::string_view a, std::string_view b) {
    return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + std::string(a) +
           R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + std::string(b) + "}}";
  };
  EXPECT_EQ(error_of(two("[2,4]", "[0,2]"), 4), "parsed");
  EXPECT_THAT(error_of(two("[0,2]", "[1,3]"), 4), HasSubstr("tensor \"b\": byte"));
  EXPECT_THAT(error_of(two("[0,2]", "[0,2]"), 4), HasSubstr("overlaps"));
  EXPECT_THAT(error_of(two("[0,2]", "[3,5]"), 5), HasSubstr("leaves a hole"));
  EXPECT_THAT(error_of(two("[1,3]", "[3,5]"), 5), HasSubstr("leaves a hole"));
  EXPECT_THAT(error_of(two("[0,2]", "[2,4]"), 5), HasSubstr("the tensors end here"));
}

TEST(Safetensors, RefusesEveryCut) {
  const std::string whole = file_of(kGood, 30);
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(parse(whole.substr(0, n))) << n;
}

TEST(Safetensors, SurvivesEveryChangedByte) {
  const std::string whole = file_of(kGood, 30);
  Rng rng(1);
  for (size_t at = 0; at < 8 + kGood.size(); ++at) {
    for (int n = 0; n < 20; ++n) {
      std::string changed = whole;
      changed[at] = static_cast<char>(rng.bits());
      const auto parsed = parse(changed);
      if (!parsed) continue;
      for (const SafeTensor& t : *parsed) {
        EXPECT_TRUE(t.offset >= 0 && t.bytes > 0 && t.offset + t.bytes <= static_cast<int64_t>(changed.size()));
      }
    }
  }
}

}  // namespace
}  // namespace quire
