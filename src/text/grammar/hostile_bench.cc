// What the worst inputs cost one thread until they are answered: compiled with a first mask, or refused. Processor
// time, since other programs' does not count. Each should have its answer within 250 ms.
#include <benchmark/benchmark.h>

#include <cstdio>

#include "base/cpu_clock.h"
#include "text/grammar/source.h"
#include "text/test_support.h"

namespace quire {
namespace {

using Notation = GrammarSource::Notation;

struct Input {
  std::string name;
  Notation notation;
  std::string text;
};

// `make(i)` for each i < n, with commas between.
template <class Make>
std::string listed(int n, Make make) {
  std::string out;
  for (int i = 0; i < n; ++i) out += (i > 0 ? "," : "") + make(i);
  return out;
}

std::string nested(int n, const std::string& open, const std::string& inner, const std::string& close) {
  std::string out = inner;
  for (int i = 0; i < n; ++i) {
    out.insert(0, open);
    out += close;
  }
  return out;
}

std::string one_ofs(int depth) {
  std::string out = R"({"type":"string"})";
  for (int i = 0; i < depth; ++i)
    out = R"({"oneOf":[)" + out + R"(,{"minLength":)" + std::to_string(i) + R"(},{"maxLength":)" +
          std::to_string(9 + i) + "}]}";
  return out;
}

std::string quoted_number(const char* prefix, int i) { return "\"" + std::string(prefix) + std::to_string(i) + "\""; }

std::vector<Input> schemas() {
  const auto number = [](const char* prefix) { return [prefix](int i) { return quoted_number(prefix, i); }; };
  const std::string product = R"({"allOf":[)" +
                              listed(20,
                                     [](int i) {
                                       return R"({"anyOf":[{"required":[)" + quoted_number("a", i) +
                                              R"(]},{"required":[)" + quoted_number("b", i) + "]}]}";
                                     }) +
                              "]}";
  const std::string optional = R"({"type":"object","additionalProperties":false,"properties":{)" +
                               listed(400, [](int i) { return quoted_number("p", i) + R"(:{"type":"integer"})"; }) +
                               "}}";
  const std::string patterns = R"({"type":"object","patternProperties":{)" +
                               listed(6,
                                      [](int i) {
                                        return R"("^[a-z]*)" + std::string(1, static_cast<char>('a' + i)) +
                                               R"([a-z]*$":{"minimum":)" + std::to_string(i) + "}";
                                      }) +
                               R"(},"additionalProperties":{"type":"string"}})";
  std::vector<Input> out;
  const auto add = [&out](const char* name, std::string text) {
    out.push_back({name, Notation::json_schema, std::move(text)});
  };
  add("oneOf 8 deep", one_ofs(8));
  add("oneOf 20 deep", one_ofs(20));
  add("allOf of 20 anyOf", product);
  add("oneOf of 1000",
      R"({"oneOf":[)" + listed(1000, [](int i) { return R"({"const":)" + std::to_string(i) + "}"; }) + "]}");
  add("minLength 1e9", R"({"type":"string","minLength":1000000000})");
  add("maxItems 1e9",
      R"({"type":"array","items":{"type":"string","maxLength":3},"minItems":1000000,"maxItems":1000000000})");
  add("400 optional properties", optional);
  add("enum of 20000", R"({"enum":[)" + listed(20'000, number("v")) + "]}");
  add("enum over the limit", R"({"enum":[)" + listed(50'000, number("v")) + "]}");
  add("(a{0,500}){0,500}", R"({"type":"string","pattern":"^(a{0,500}){0,500}$"})");
  add("a{1000000}", R"({"type":"string","pattern":"^a{1000000}$"})");
  add(".{0,10000}.{0,10000}", R"({"type":"string","pattern":"^.{0,10000}.{0,10000}$"})");
  add("multipleOf 1e-9", R"({"multipleOf":1e-9})");
  add("minimum above maximum", R"({"type":"integer","minimum":3,"maximum":2})");
  add("ends of int64", R"({"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807})");
  add("six patternProperties", patterns);
  add("nested 64 deep", nested(60, R"({"items":)", "{}", "}"));
  add("nested 10000 deep", nested(10'000, R"({"items":)", "{}", "}"));
  add("$ref to itself", R"({"$ref":"#"})");
  add("$ref to a file", R"({"$ref":"file:///etc/passwd"})");
  add("type 5", R"({"properties":{"a":{"type":5}}})");
  add("uniqueItems", R"({"type":"array","uniqueItems":true,"items":{"enum":[1,2,3,4,5,6,7,8]}})");
  return out;
}

std::vector<Input> grammars() {
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 9000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  chain += "r9000 ::= \"x\"";
  std::string alternatives = "root ::= \"a0\"";
  for (int i = 1; i < 25'000; ++i) alternatives += " | \"a" + std::to_string(i) + "\"";
  return {{"loop of nothing", Notation::gbnf, "root ::= ( [x]* )*"},
          {"left recursion", Notation::gbnf, "root ::= root \"a\" | root root | \"\""},
          {"no such rule", Notation::gbnf, "root ::= a"},
          {"25000 alternatives", Notation::gbnf, alternatives},
          {"9000 rules in a chain", Notation::gbnf, chain},
          {"100000 brackets", Notation::gbnf, "root ::= " + nested(100'000, "(", "\"a\"", ")")},
          {"regex (a+)+$", Notation::regex, "(a+)+$"},
          {"regex (a|a)*", Notation::regex, "(a|a)*b"},
          {"regex of counts", Notation::regex, "(a{0,500}){0,500}"},
          {"regex of counts of anything", Notation::regex, ".{0,10000}.{0,10000}"},
          {"regex of words in any order", Notation::regex, "(?=.*alpha)(?=.*beta)(?=.*gamma)(?=.*delta).*"},
          {"100000 choices over the limit", Notation::choice,
           "[" + listed(100'000, [](int i) { return quoted_number("c", i); }) + "]"}};
}

void answer_of_hostile_input(benchmark::State& state) {
  const auto vocabulary = shared_dir() / "tokenizers" / "gguf-vocab" / "ggml-vocab-llama-bpe.gguf";
  if (!std::filesystem::exists(vocabulary)) {
    state.SkipWithError("no test data");
    return;
  }
  const auto tokenizer = load_gguf_tokenizer(vocabulary);
  const auto trie = TokenTrie::of(*tokenizer, static_cast<size_t>(tokenizer->n_vocab()));
  std::vector<Input> inputs = schemas();
  for (Input& input : grammars()) inputs.push_back(std::move(input));
  for (auto _ : state) {
    double worst = 0;
    for (const Input& input : inputs) {
      std::vector<uint32_t> mask(trie->n_words());
      const auto from = ProcessCpuClock().now_ns();
      std::string answer = "kept";
      if (const auto made = compile_grammar({input.notation, input.text}, *tokenizer, {})) {
        Matcher m(*made, trie);
        if (const auto first = m.mask(mask); !first) answer = first.error().message;
      } else {
        answer = made.error().message;
      }
      const double ms = static_cast<double>(ProcessCpuClock().now_ns() - from) / 1e6;
      worst = std::max(worst, ms);
      std::printf("%8.2f ms  %s: %s\n", ms, input.name.c_str(), answer.substr(0, 90).c_str());
    }
    state.counters["worst_ms"] = worst;
  }
}
BENCHMARK(answer_of_hostile_input)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quire
