#include "io/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/json.h"
#include "base/mmap.h"
#include "base/rng.h"
#include "io/ggml_types.h"
#include "io/gguf_test_file.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Every value type, two tensors of which the second lies first, alignment 64.
GgufBytes small_file() {
  GgufBytes f;
  f.head(3, 2, 18);
  f.key("a.u8", gt_u8).put(uint8_t{200}).key("a.i8", gt_i8).put(int8_t{-3});
  f.key("a.u16", gt_u16).put(uint16_t{60000}).key("a.i16", gt_i16).put(int16_t{-300});
  f.key("a.u32", gt_u32).put(uint32_t{4000000000}).key("a.i32", gt_i32).put(int32_t{-70000});
  f.key("a.u64", gt_u64).put(uint64_t{1} << 40).key("a.big", gt_u64).put(std::numeric_limits<uint64_t>::max());
  f.key("a.i64", gt_i64).put(std::numeric_limits<int64_t>::min());
  f.key("a.f32", gt_f32).put(0.5F).key("a.f64", gt_f64).put(-0.25);
  f.key("a.true", gt_bool).put(uint8_t{1}).fact("general.name", "tiny");
  f.strings("b.words", {"one", "", "three"}).array<int16_t>("b.numbers", gt_i16, {-1, 2});
  f.array<float>("b.floats", gt_f32, {1.5F});
  f.key("b.nested", gt_arr).put(uint32_t{gt_arr}).put(uint64_t{2});
  f.put(uint32_t{gt_u8}).put(uint64_t{3}).fill(3, 1).put(uint32_t{gt_str}).put(uint64_t{1}).str("x");
  f.key("general.alignment", gt_u32).put(uint32_t{64});
  f.tensor("second", {4, 3}, 0, 64).tensor("first", {32}, 8, 0).pad(64).fill(34, 'q').pad(64).fill(48, 'f');
  return f;
}

TEST(Gguf, ReadsEveryValueType) {
  const GgufBytes file = small_file();
  const auto header = parse_gguf(file.bytes(), GgufParts::all);
  ASSERT_TRUE(header) << header.error().message;
  const auto& v = header->meta.values;
  EXPECT_EQ(header->version, 3U);
  EXPECT_EQ(v.at("a.u8"), MetaValue(int64_t{200}));
  EXPECT_EQ(v.at("a.i8"), MetaValue(int64_t{-3}));
  EXPECT_EQ(v.at("a.u16"), MetaValue(int64_t{60000}));
  EXPECT_EQ(v.at("a.i16"), MetaValue(int64_t{-300}));
  EXPECT_EQ(v.at("a.u32"), MetaValue(int64_t{4000000000}));
  EXPECT_EQ(v.at("a.i32"), MetaValue(int64_t{-70000}));
  EXPECT_EQ(v.at("a.u64"), MetaValue(int64_t{1} << 40));
  EXPECT_EQ(v.at("a.big"), MetaValue(std::numeric_limits<uint64_t>::max()));
  EXPECT_EQ(v.at("a.i64"), MetaValue(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(v.at("a.f32"), MetaValue(0.5));
  EXPECT_EQ(v.at("a.f64"), MetaValue(-0.25));
  EXPECT_EQ(v.at("a.true"), MetaValue(true));
  EXPECT_EQ(v.at("general.name"), MetaValue(std::string("tiny")));
  EXPECT_EQ(v.at("b.words"), MetaValue(std::vector<std::string>{"one", "", "three"}));
  EXPECT_EQ(v.at("b.numbers"), MetaValue(std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(v.at("b.floats"), MetaValue(std::vector<double>{1.5}));
  EXPECT_EQ(v.count("b.nested"), 0U);  // passed over
  EXPECT_EQ(v.size(), 17U);
}

TEST(Gguf, PlacesTensors) {
  const GgufBytes file = small_file();
  const auto header = parse_gguf(file.bytes(), GgufParts::all);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->alignment, 64U);
  ASSERT_EQ(header->tensors.size(), 2U);
  const GgufTensor& first = header->tensors[0];  // sorted by name
  const GgufTensor& second = header->tensors[1];
  EXPECT_EQ(first.name, "first");
  EXPECT_EQ(first.bytes, 34);
  EXPECT_EQ(first.offset, header->data_offset);
  EXPECT_EQ(file.text()[static_cast<size_t>(first.offset)], 'q');
  EXPECT_EQ(second.name, "second");
  EXPECT_THAT(second.shape, ElementsAre(3, 4));  // outermost first
  EXPECT_EQ(second.bytes, 48);
  EXPECT_EQ(second.offset, header->data_offset + 64);
  EXPECT_EQ(file.text()[static_cast<size_t>(second.offset)], 'f');
}

TEST(Gguf, Version2IsReadTheSame) {
  std::string text = small_file().text();
  text[4] = 2;
  const auto header = parse_gguf(std::as_bytes(std::span(text)), GgufParts::all);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->version, 2U);
  EXPECT_EQ(header->tensors.size(), 2U);
}

TEST(Gguf, FactsAloneDoNotNeedTheTensors) {
  const std::string whole = small_file().text();
  const size_t table = whole.find("second") - 8;
  const auto facts_only = std::as_bytes(std::span(whole)).first(table);
  EXPECT_FALSE(parse_gguf(facts_only, GgufParts::all));
  const auto header = parse_gguf(facts_only, GgufParts::facts);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->meta.values.size(), 17U);
  EXPECT_EQ(header->n_tensors, 2U);
  EXPECT_TRUE(header->tensors.empty());
}

TEST(Gguf, RefusesEveryTruncation) {
  const GgufBytes file = small_file();
  for (size_t n = 0; n < file.bytes().size(); ++n) {
    const std::string copy = file.text().substr(0, n);  // its own memory, so that a sanitizer sees a read too far
    const auto header = parse_gguf(std::as_bytes(std::span(copy)), GgufParts::all);
    ASSERT_FALSE(header) << "cut to " << n << " bytes";
    EXPECT_THAT(header.error().message, HasSubstr("byte ")) << n;
  }
  EXPECT_TRUE(parse_gguf(file.bytes(), GgufParts::all));
}

// What a mutated file is allowed to be: refused, or a header whose every tensor lies inside the file.
void expect_sound(std::span<const std::byte> file) {
  const auto header = parse_gguf(file, GgufParts::all);
  if (!header) {
    EXPECT_FALSE(header.error().message.empty());
    return;
  }
  for (const GgufTensor& t : header->tensors) {
    ASSERT_NE(find_ggml_type(t.type), nullptr);
    ASSERT_GE(t.offset, header->data_offset);
    ASSERT_LE(t.offset + t.bytes, static_cast<int64_t>(file.size()));
    ASSERT_EQ(static_cast<uint64_t>(t.offset - header->data_offset) % header->alignment, 0U);
  }
}

TEST(Gguf, SurvivesEveryOneByteChange) {
  const std::string whole = small_file().text();
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string copy = whole;
      copy[i] = static_cast<char>(copy[i] ^ flip);
      expect_sound(std::as_bytes(std::span(copy)));
    }
  }
}

TEST(Gguf, SurvivesRandomMutations) {
  const std::string whole = small_file().text();
  Rng rng(20240611);
  for (int round = 0; round < 20000; ++round) {
    std::string copy =
        whole.substr(0, static_cast<size_t>(rng.between(whole.size() / 2, static_cast<int64_t>(whole.size()))));
    for (int64_t n = rng.between(1, 6); n > 0; --n) {
      const auto at = static_cast<size_t>(rng.between(0, static_cast<int64_t>(copy.size()) - 9));
      const uint64_t value = rng.between(0, 1) == 0 ? rng.bits() : ~uint64_t{0} >> rng.between(0, 63);
      std::memcpy(copy.data() + at, &value, static_cast<size_t>(rng.between(1, 8)));
    }
    expect_sound(std::as_bytes(std::span(copy)));
  }
}

struct BadFile {
  const char* name;
  std::function<void(GgufBytes&)> build;
  const char* message;  // part of it
};

class BadFiles : public testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, AreRefusedByName) {
  GgufBytes file;
  GetParam().build(file);
  const auto header = parse_gguf(file.bytes(), GgufParts::all);
  ASSERT_FALSE(header);
  EXPECT_THAT(header.error().message, HasSubstr(GetParam().message));
}

constexpr uint64_t kHuge[] = {std::numeric_limits<uint64_t>::max(), uint64_t{1} << 63, (uint64_t{1} << 63) - 1,
                              uint64_t{1} << 61};

// A file with one tensor entry and `n` bytes of data after it.
void one_tensor(GgufBytes& f, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset, size_t n = 256) {
  f.head(3, 1, 0).tensor("w", dims, type, offset).pad(32).fill(n, 1);
}
void alignment(GgufBytes& f, uint32_t value) { f.head(3, 0, 1).key("general.alignment", gt_u32).put(value); }
void nested(GgufBytes& f, int depth) {
  f.head(3, 0, 1).key("k", gt_arr);
  for (int i = 1; i < depth; ++i) f.put(uint32_t{gt_arr}).put(uint64_t{1});
  f.put(uint32_t{gt_u8}).put(uint64_t{0}).fill(64, 0);
}

const BadFile kBadFiles[] = {
    {"empty", [](GgufBytes&) {}, "byte 0: the magic takes 4 bytes, 0 are left"},
    {"magic", [](GgufBytes& f) { f.raw("GGML").fill(60, 0); }, "byte 0: the magic is not \"GGUF\""},
    {"version0", [](GgufBytes& f) { f.head(0, 0, 0); }, "byte 4: GGUF version 0 is not supported"},
    {"version1", [](GgufBytes& f) { f.head(1, 0, 0); }, "GGUF version 1 is not supported, 2 and 3 are"},
    {"version99", [](GgufBytes& f) { f.head(99, 0, 0); }, "GGUF version 99 is not supported"},
    {"big_endian", [](GgufBytes& f) { f.head(0x03000000, 0, 0); }, "big-endian"},
    {"n_keys_max", [](GgufBytes& f) { f.head(3, 0, kHuge[0]); }, "byte 24: the list of keys takes"},
    {"n_keys_2e63", [](GgufBytes& f) { f.head(3, 0, kHuge[1]); }, "the list of keys takes"},
    {"n_keys_2e61", [](GgufBytes& f) { f.head(3, 0, kHuge[3]); }, "the list of keys takes"},
    {"n_tensors_max", [](GgufBytes& f) { f.head(3, kHuge[0], 0); }, "byte 24: the list of tensors takes"},
    {"n_tensors_2e63m1", [](GgufBytes& f) { f.head(3, kHuge[2], 0); }, "the list of tensors takes"},
    {"one_tensor_too_many", [](GgufBytes& f) { f.head(3, 2, 0).tensor("w", {8}, 0, 0).pad(32).fill(32, 0); }, "byte "},
    {"key_empty", [](GgufBytes& f) { f.head(3, 0, 1).key("", gt_u8).fill(9, 0); },
     "a key of 0 bytes, must have 1 to 65535"},
    {"key_long", [](GgufBytes& f) { f.head(3, 0, 1).put(uint64_t{65536}).fill(70000, 'k'); }, "a key of 65536 bytes"},
    {"key_huge", [](GgufBytes& f) { f.head(3, 0, 1).put(kHuge[0]).fill(20, 'k'); },
     "byte 24: a key of 18446744073709551615"},
    {"key_beyond", [](GgufBytes& f) { f.head(3, 0, 1).put(uint64_t{21}).fill(20, 'k'); },
     "a key takes 21 bytes, 20 are left"},
    {"key_twice",
     [](GgufBytes& f) { f.head(3, 0, 2).key("twin", gt_u8).put(uint8_t{1}).key("twin", gt_u8).put(uint8_t{1}); },
     "byte 41: the key \"twin\" is there a second time"},
    {"nested_key_twice",
     [](GgufBytes& f) {
       f.head(3, 0, 2);
       for (int i = 0; i < 2; ++i) f.key("k", gt_arr).put(uint32_t{gt_arr}).put(uint64_t{0});
     },
     "byte 49: the key \"k\" is there a second time"},
    {"value_type", [](GgufBytes& f) { f.head(3, 0, 1).key("k", 13).fill(8, 0); },
     "key \"k\": byte 37: value type 13 is none of"},
    {"value_type_max", [](GgufBytes& f) { f.head(3, 0, 1).key("k", 0xffffffff).fill(8, 0); }, "value type 4294967295"},
    {"bool_2", [](GgufBytes& f) { f.head(3, 0, 1).key("k", gt_bool).put(uint8_t{2}); },
     "key \"k\": byte 37: a bool must be 0 or 1, is 2"},
    {"string_huge", [](GgufBytes& f) { f.head(3, 0, 1).key("k", gt_str).put(kHuge[0]); },
     "key \"k\": byte 45: a string of 18446744073709551615 bytes, limit"},
    {"string_gib", [](GgufBytes& f) { f.head(3, 0, 1).key("k", gt_str).put(uint64_t{1} << 30); },
     "a string of 1073741824 bytes, limit"},
    {"string_beyond", [](GgufBytes& f) { f.head(3, 0, 1).key("k", gt_str).put(uint64_t{4}).raw("abc"); },
     "a string takes 4 bytes, 3 are left"},
    {"array_of_2e40",
     [](GgufBytes& f) { f.head(3, 0, 1).key("k", gt_arr).put(uint32_t{gt_f32}).put(uint64_t{1} << 40); },
     "an array takes 1099511627776"},
    {"array_wraps",
     [](GgufBytes& f) { f.head(3, 0, 1).key("k", gt_arr).put(uint32_t{gt_f64}).put(uint64_t{1} << 61).fill(64, 0); },
     "an array takes"},
    {"array_of_strings",
     [](GgufBytes& f) { f.head(3, 0, 1).key("k", gt_arr).put(uint32_t{gt_str}).put(uint64_t{9}).fill(64, 0); },
     "an array takes 9 × at least 8"},
    {"array_type", [](GgufBytes& f) { f.head(3, 0, 1).key("k", gt_arr).put(uint32_t{13}).put(uint64_t{0}); },
     "array of value type 13"},
    {"array_u64_big", [](GgufBytes& f) { f.head(3, 0, 1).array<uint64_t>("k", gt_u64, {kHuge[1]}); },
     "array element 9223372036854775808 is beyond int64"},
    {"nested_5", [](GgufBytes& f) { nested(f, 5); }, "key \"k\": byte 85: arrays nested deeper than 4"},
    {"nested_1000", [](GgufBytes& f) { nested(f, 1000); }, "arrays nested deeper than 4"},
    {"alignment_0", [](GgufBytes& f) { alignment(f, 0); },
     "key \"general.alignment\": must be an integer in [8, 16777216], is 0"},
    {"alignment_3", [](GgufBytes& f) { alignment(f, 3); }, "general.alignment"},
    {"alignment_24", [](GgufBytes& f) { alignment(f, 24); }, "must be a power of two, is 24"},
    {"alignment_2e31", [](GgufBytes& f) { alignment(f, uint32_t{1} << 31); }, "is 2147483648"},
    {"alignment_string", [](GgufBytes& f) { f.head(3, 0, 1).fact("general.alignment", "32"); },
     "must be an integer in [8, 16777216], is the string \"32\""},
    {"name_empty", [](GgufBytes& f) { f.head(3, 1, 0).tensor("", {8}, 0, 0).pad(32).fill(64, 0); },
     "a tensor name of 0 bytes"},
    {"name_long", [](GgufBytes& f) { f.head(3, 1, 0).tensor(std::string(256, 'n'), {8}, 0, 0).pad(32).fill(64, 0); },
     "a tensor name of 256 bytes, must have 1 to 255"},
    {"name_twice",
     [](GgufBytes& f) { f.head(3, 2, 0).tensor("w", {8}, 0, 0).tensor("w", {8}, 0, 32).pad(32).fill(64, 0); },
     "tensor \"w\": byte 57: the name is there a second time"},
    {"no_dims", [](GgufBytes& f) { one_tensor(f, {}, 0, 0); }, "tensor \"w\": byte 37: 0 dimensions, must be 1 to 4"},
    {"dims_5", [](GgufBytes& f) { one_tensor(f, {1, 1, 1, 1, 1}, 0, 0); }, "5 dimensions, must be 1 to 4"},
    {"dim_zero", [](GgufBytes& f) { one_tensor(f, {4, 0}, 0, 0); }, "tensor \"w\": byte 53: dimension 1 is 0"},
    {"dims_wrap", [](GgufBytes& f) { one_tensor(f, {uint64_t{1} << 32, uint64_t{1} << 32, 16}, 0, 0); },
     "more elements than 64 bits count: dimension 1"},
    {"dim_negative", [](GgufBytes& f) { one_tensor(f, {kHuge[0]}, 0, 0); },
     "more elements than 64 bits count: dimension 0 is 18446744073709551615"},
    {"bytes_wrap", [](GgufBytes& f) { one_tensor(f, {uint64_t{1} << 61, 2}, 0, 0); },
     "more bytes than 64 bits count: 4611686018427387904 elements"},
    {"type_4_removed", [](GgufBytes& f) { one_tensor(f, {32}, 4, 0); },
     "tensor \"w\": byte 45: tensor type 4 is unknown"},
    {"type_255", [](GgufBytes& f) { one_tensor(f, {32}, 255, 0); }, "tensor type 255 is unknown"},
    {"type_negative", [](GgufBytes& f) { one_tensor(f, {32}, 0xffffffff, 0); }, "tensor type 4294967295 is unknown"},
    {"half_a_block", [](GgufBytes& f) { one_tensor(f, {48, 2}, 8, 0); },
     "rows of 48 elements, type q8_0 needs a multiple of 32"},
    {"offset_unaligned", [](GgufBytes& f) { one_tensor(f, {8}, 0, 16); },
     "offset 16 is no multiple of the alignment 32"},
    {"offset_huge", [](GgufBytes& f) { one_tensor(f, {8}, 0, uint64_t{0} - 32); }, "end beyond the file"},
    {"offset_beyond", [](GgufBytes& f) { one_tensor(f, {8}, 0, 256); },
     "tensor \"w\": byte 24: offset 256 and 32 bytes end beyond the file: data starts at 64, the file has 320 bytes"},
    {"one_byte_short", [](GgufBytes& f) { one_tensor(f, {8}, 0, 0, 31); }, "end beyond the file"},
    {"overlap",
     [](GgufBytes& f) { f.head(3, 2, 0).tensor("a", {16}, 0, 0).tensor("b", {8}, 0, 32).pad(32).fill(128, 0); },
     "tensor \"b\": byte 57: offset 32 overlaps tensor \"a\""},
    {"same_place",
     [](GgufBytes& f) { f.head(3, 2, 0).tensor("a", {8}, 0, 32).tensor("b", {8}, 0, 32).pad(32).fill(128, 0); },
     "overlaps tensor"},
};

INSTANTIATE_TEST_SUITE_P(Table, BadFiles, testing::ValuesIn(kBadFiles), [](const auto& row) { return row.param.name; });

TEST(GgmlTypes, AgreeWithTheWeightFormats) {
  for (const WeightFormat* format : weight_formats()) {
    const GgmlType* type = find_ggml_type(format->ggml_type);
    if (!format->is_in_gguf()) {
      EXPECT_EQ(type, nullptr) << format->name;
      continue;
    }
    ASSERT_NE(type, nullptr) << format->name;
    EXPECT_EQ(type->name, format->name);
    EXPECT_EQ(type->block, format->block) << format->name;
    EXPECT_EQ(type->bytes, format->bytes) << format->name;
  }
}

TEST(Gguf, FourNestedArraysAreAllowed) {
  GgufBytes file;
  nested(file, 4);
  EXPECT_TRUE(parse_gguf(file.bytes(), GgufParts::all));
}

// The value of a fact as the truth file writes it.
MetaValue from_json(const Json& value) {
  if (const bool* v = value.as_bool()) return *v;
  if (const int64_t* v = value.as_int()) return *v;
  if (const double* v = value.as_double()) return *v;
  if (const std::string* v = value.as_string()) return *v;
  std::vector<std::string> strings;
  std::vector<int64_t> numbers;
  for (const Json& element : *value.as_array()) {
    if (element.as_string() != nullptr) strings.push_back(*element.as_string());
    if (element.as_int() != nullptr) numbers.push_back(*element.as_int());
  }
  if (numbers.empty()) return strings;
  return numbers;
}

TEST(Gguf, FactsOfARealFileReadAsItsTruthSays) {
  QR_SHARED_OR_SKIP(path, "data/models/quant-slice/slice.gguf");
  const auto truth = Json::parse(read_all(shared_path("data/models/quant-slice/container_truth.json")));
  ASSERT_TRUE(truth);
  const auto map = MappedFile::open(path);
  ASSERT_TRUE(map);
  const auto header = parse_gguf((*map)->bytes(), GgufParts::all);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(int64_t{header->version}, *truth->find("version")->as_int());
  EXPECT_EQ(static_cast<int64_t>(header->alignment), *truth->find("alignment")->as_int());
  EXPECT_EQ((*map)->size(), *truth->find("file_bytes")->as_int());
  EXPECT_EQ(static_cast<int64_t>(header->meta.values.size()), *truth->find("kv_count")->as_int());
  for (const auto& [key, fact] : *truth->find("kv")->as_object()) {
    const MetaValue* value = header->meta.find(key);
    ASSERT_NE(value, nullptr) << key;
    EXPECT_EQ(*value, from_json(*fact.find("value"))) << key;
  }
}

TEST(Gguf, TensorsOfARealFileReadAsItsTruthSays) {
  QR_SHARED_OR_SKIP(path, "data/models/quant-slice/slice.gguf");
  const auto truth = Json::parse(read_all(shared_path("data/models/quant-slice/container_truth.json")));
  ASSERT_TRUE(truth);
  const std::string file = read_all(path);
  const auto header = parse_gguf(std::as_bytes(std::span(file)), GgufParts::all);
  ASSERT_TRUE(header) << header.error().message;
  const Json::Array& wanted = *truth->find("tensors")->as_array();
  ASSERT_EQ(header->tensors.size(), wanted.size());
  for (const Json& w : wanted) {
    const std::string& name = *w.find("name")->as_string();
    const auto it =
        std::find_if(header->tensors.begin(), header->tensors.end(), [&](const auto& t) { return t.name == name; });
    ASSERT_NE(it, header->tensors.end()) << name;
    std::vector<int64_t> shape;
    for (const Json& extent : *w.find("shape_ggml_order")->as_array()) shape.insert(shape.begin(), *extent.as_int());
    EXPECT_EQ(it->shape, shape) << name;
    EXPECT_EQ(int64_t{it->type}, *w.find("ggml_type_id")->as_int()) << name;
    EXPECT_EQ(it->bytes, *w.find("n_bytes")->as_int()) << name;
    EXPECT_EQ(it->offset, *w.find("absolute_data_offset")->as_int()) << name;
  }
}

}  // namespace
}  // namespace quire
