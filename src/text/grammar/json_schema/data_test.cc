// Real schemas and the standard's own test suite, from the shared data: how many are kept exactly, how many refused. A
// schema counts as right when every valid instance is let through and every invalid one is not. Instances are written
// as Python's json.dumps writes them; where that is refused, with their keys in the order of the schema, which is what
// an answer would look like.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>

#include "text/grammar/json_schema.h"
#include "text/test_support.h"
#include "text/utf8.h"

namespace quire {
namespace {

void dump_string(std::string_view s, std::string& out) {
  out += '"';
  const auto unit = [&](char32_t u) {
    char hex[16];
    std::snprintf(hex, sizeof hex, "\\u%04x", static_cast<unsigned>(u));
    out += hex;
  };
  for (const char32_t c : to_code_points(s)) {
    static const std::map<char32_t, const char*> kShort = {{'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"},
                                                           {'\t', "\\t"}, {'\b', "\\b"},  {'\f', "\\f"}};
    if (const auto it = kShort.find(c); it != kShort.end()) {
      out += it->second;
    } else if (c >= 0x20 && c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x10000) {
      unit(c);
    } else {
      unit(0xD800 + ((c - 0x10000) >> 10));
      unit(0xDC00 + ((c - 0x10000) & 0x3FF));
    }
  }
  out += '"';
}

// All objects of properties in the schema. An instance's object is taken to belong to the one that knows most of its
// names, and its members are put in that one's order.
using NameOrder = std::vector<std::map<std::string, size_t>>;

void collect_names(const Json& schema, NameOrder& orders) {
  if (const Json::Array* a = schema.as_array()) {
    for (const Json& v : *a) collect_names(v, orders);
  }
  if (schema.as_object() == nullptr) return;
  for (const auto& [key, value] : *schema.as_object()) {
    if (key == "properties" && value.as_object() != nullptr) {
      orders.emplace_back();
      for (const auto& [name, unused] : *value.as_object()) orders.back().emplace(name, orders.back().size());
    }
    collect_names(value, orders);
  }
}

void put_in_order(Json::Object& members, const NameOrder& orders) {
  const std::map<std::string, size_t>* best = nullptr;
  long most = 0;
  for (const auto& order : orders) {
    const long n =
        std::count_if(members.begin(), members.end(), [&](const auto& m) { return order.contains(m.first); });
    if (n > most) most = n, best = &order;
  }
  if (best == nullptr) return;
  const auto rank = [&](const Json::Member& m) {
    const auto it = best->find(m.first);
    return it == best->end() ? best->size() : it->second;
  };
  std::stable_sort(members.begin(), members.end(), [&](const auto& x, const auto& y) { return rank(x) < rank(y); });
}

void dumps(const Json& v, const NameOrder* order, std::string& out) {
  if (const std::string* s = v.as_string()) return dump_string(*s, out);
  const char* separator = "";
  if (const Json::Array* a = v.as_array()) {
    out += '[';
    for (const Json& e : *a) out += separator, separator = ", ", dumps(e, order, out);
    out += ']';
  } else if (v.as_object() != nullptr) {
    Json::Object members = *v.as_object();
    if (order != nullptr) put_in_order(members, *order);
    out += '{';
    for (const auto& [key, value] : members) {
      out += separator, separator = ", ";
      dump_string(key, out);
      out += ": ";
      dumps(value, order, out);
    }
    out += '}';
  } else {
    out += v.dump();
  }
}

struct Tally {
  size_t n = 0, right = 0, right_as_written = 0, refused = 0, took_invalid = 0, refused_valid = 0;
  std::string text() const {
    return std::to_string(right) + " of " + std::to_string(n) + " right (" + std::to_string(right_as_written) +
           " as written), " + std::to_string(refused) + " refused, " + std::to_string(took_invalid) +
           " let an invalid instance through, " + std::to_string(refused_valid) + " keep a valid one out";
  }
};

class Runner {
 public:
  Runner() : trie_(std::make_shared<const TokenTrie>(std::vector<std::string>{"a"}, std::vector<Token>{}, 1)) {}

  void run(const Json& schema, const Json& tests, bool draft7, const std::string& name) {
    ++tally.n;
    const auto grammar = compile_json_schema(schema.dump(), {draft7}, {});
    const Json::Array& instances = *tests.as_array();
    if (!grammar) {
      const bool any_valid = std::any_of(instances.begin(), instances.end(), [](const Json& t) { return is_valid(t); });
      // Of a schema that nothing obeys there is no answer to make.
      if (grammar.error().message.ends_with("nothing can match it") && !any_valid) {
        ++tally.right, ++tally.right_as_written;
      } else {
        ++tally.refused;
      }
      EXPECT_NE(grammar.error().message.find("json_schema: #"), std::string::npos) << name << grammar.error().message;
      return;
    }
    NameOrder order;
    collect_names(schema, order);
    bool invalid = false, as_written = true, in_order = true;
    for (const Json& test : instances) {
      const bool written = takes(*grammar, *test.find("data"), nullptr);
      const bool ordered = written || takes(*grammar, *test.find("data"), &order);
      if (is_valid(test)) {
        as_written &= written;
        in_order &= ordered;
      } else if (ordered) {
        invalid = true;
        std::string text;
        dumps(*test.find("data"), nullptr, text);
        ADD_FAILURE() << name << " lets through " << text;
      }
    }
    tally.took_invalid += invalid ? 1 : 0;
    tally.refused_valid += in_order ? 0 : 1;
    tally.right += !invalid && in_order ? 1 : 0;
    tally.right_as_written += !invalid && as_written ? 1 : 0;
  }

  Tally tally;

 private:
  static bool is_valid(const Json& test) { return *test.find("valid")->as_bool(); }
  bool takes(const std::shared_ptr<const Grammar>& grammar, const Json& data, const NameOrder* order) {
    std::string text;
    dumps(data, order, text);
    Matcher m(grammar, trie_);
    return m.accept_text(text).has_value() && m.may_end();
  }

  std::shared_ptr<const TokenTrie> trie_;
};

// All of them with QUIRE_TEST_ALL, else every fifth.
size_t stride() { return std::getenv("QUIRE_TEST_ALL") != nullptr ? 1 : 5; }

Tally run_maskbench(const std::filesystem::path& path) {
  Runner runner;
  std::ifstream in(path);
  size_t i = 0;
  for (std::string line; std::getline(in, line); ++i) {
    if (i % stride() != 0) continue;
    const Json entry = *Json::parse(line);
    runner.run(*entry.find("schema"), *entry.find("tests"), false, *entry.find("id")->as_string());
  }
  std::printf("%s: %s\n", path.filename().c_str(), runner.tally.text().c_str());
  return runner.tally;
}

TEST(JsonSchemaData, KeepsRealSchemas) {
  const auto dir = shared_dir() / "json-schema";
  QR_NEED_FILE(dir / "maskbench-Github_trivial.jsonl");
  Tally all;
  for (const char* file : {"Github_trivial", "Glaiveai2K", "MCPspec", "Snowplow"}) {
    const Tally t = run_maskbench(dir / ("maskbench-" + std::string(file) + ".jsonl"));
    all.n += t.n, all.right += t.right, all.took_invalid += t.took_invalid, all.refused_valid += t.refused_valid;
  }
  EXPECT_EQ(all.took_invalid, 0u);
  EXPECT_LE(all.refused_valid, 1u);
  EXPECT_GE(all.right * 1330, all.n * 1310);
  EXPECT_EQ(run_maskbench(dir / "maskbench-Handwritten.jsonl").took_invalid, 0u);
}

Tally run_suite(const char* draft, bool draft7) {
  const auto parsed = Json::parse(read_file(shared_dir() / "json-schema" / ("suite-" + std::string(draft) + ".json")));
  Runner runner;
  for (const Json& file : *parsed->as_array()) {
    const std::string& name = *file.find("file")->as_string();
    if (name.starts_with("optional/")) continue;
    for (const Json& group : *file.find("groups")->as_array()) {
      runner.run(*group.find("schema"), *group.find("tests"), draft7,
                 name + ": " + *group.find("description")->as_string());
    }
  }
  std::printf("%s: %s\n", draft, runner.tally.text().c_str());
  return runner.tally;
}

TEST(JsonSchemaData, KeepsTheTestSuiteOfDraft7) {
  QR_NEED_FILE(shared_dir() / "json-schema" / "suite-draft7.json");
  const Tally t = run_suite("draft7", true);
  EXPECT_EQ(t.took_invalid, 0u);
  EXPECT_GE(t.right_as_written, 165u);
}

TEST(JsonSchemaData, KeepsTheTestSuiteOfDraft2020) {
  QR_NEED_FILE(shared_dir() / "json-schema" / "suite-draft2020-12.json");
  const Tally t = run_suite("draft2020-12", false);
  EXPECT_EQ(t.took_invalid, 0u);
  EXPECT_GE(t.right_as_written, 170u);
}

}  // namespace
}  // namespace quire
