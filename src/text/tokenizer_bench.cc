// Bytes a second of encoding, one thread: prose, code, and the texts that are hard for naive tokenizers. Vocabularies
// and texts come from the shared data; what is absent is left out.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "text/detok.h"
#include "text/test_support.h"
#include "text/tokenizer_files.h"

namespace quire {
namespace {

struct Vocabulary {
  const char* name;
  const char* path;  // below tokenizers/
};
constexpr Vocabulary kVocabularies[] = {
    {"gpt2", "gguf-vocab/ggml-vocab-gpt-2.gguf"},
    {"llama3", "hf/llama-3"},
    {"qwen2", "hf/qwen2.5"},
    {"o200k", "tiktoken/o200k_base.tiktoken"},
    {"deepseek", "gguf-vocab/ggml-vocab-deepseek-llm.gguf"},
    {"falcon", "gguf-vocab/ggml-vocab-falcon.gguf"},
    {"llama_spm", "gguf-vocab/ggml-vocab-llama-spm.gguf"},
    {"llama2_json", "hf/llama-2"},
    {"mistral_spm", "spm/mistral-v3.model"},
    {"stories_spm", "spm/tok512.model"},
    {"t5_unigram", "hf/t5-small"},
    {"bert", "hf/bert-base-uncased"},
};

std::string text_named(const std::string& name) {
  constexpr size_t kMillion = 1'000'000;
  if (name == "letters") return std::string(kMillion, 'A');
  if (name == "spaces") return std::string(kMillion, ' ');
  if (name == "newlines") return std::string(kMillion, '\n');
  if (name == "digits") return std::string(kMillion, '7');
  if (name == "code") return read_file(shared_dir() / "tokenizers/tiktoken/lib.rs.txt");
  if (name == "chinese") {
    std::string out;
    const std::string line = "我们认为这些真理是不言而喻的，人人生而平等。造物者赋予他们若干不可剥夺的权利";
    while (out.size() < kMillion) out += line;
    return out;
  }
  return read_file(shared_dir() / "prompts/tinyshakespeare.txt");
}

std::unique_ptr<Tokenizer> load(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") return load_gguf_tokenizer(path);
  auto made = load_tokenizer(path.string());
  return made ? std::move(*made) : nullptr;
}

void encode_text(benchmark::State& state, const Tokenizer* tokenizer, const std::string& name) {
  const std::string text = text_named(name);
  std::vector<Token> ids;
  for (auto _ : state) {
    ids.clear();
    tokenizer->encode(text, {}, ids);
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["bytes_a_token"] = static_cast<double>(text.size()) / static_cast<double>(ids.size());
}

void stream_text(benchmark::State& state, const Tokenizer* tokenizer) {
  const std::vector<Token> ids = encode(*tokenizer, text_named("prose"));
  size_t n_bytes = 0;
  for (auto _ : state) {
    Detok detok(*tokenizer, false, true);
    std::string out;
    for (const Token id : ids) detok.push(id, out);
    detok.flush(out);
    n_bytes += out.size();
  }
  state.SetBytesProcessed(static_cast<int64_t>(n_bytes));
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const Vocabulary& v : kVocabularies) {
    const auto path = shared_dir() / "tokenizers" / v.path;
    if (!std::filesystem::exists(path)) continue;
    static std::vector<std::unique_ptr<Tokenizer>> keep;
    keep.push_back(load(path));
    const Tokenizer* t = keep.back().get();
    if (t == nullptr) continue;
    const std::string name = v.name;
    for (const char* text : {"prose", "code", "chinese", "letters", "spaces", "newlines", "digits"}) {
      const std::string text_name = text;
      benchmark::RegisterBenchmark(("encode/" + name + "/" + text).c_str(),
                                   [t, text_name](benchmark::State& s) { encode_text(s, t, text_name); });
    }
    benchmark::RegisterBenchmark(("detok/" + name).c_str(), [t](benchmark::State& s) { stream_text(s, t); });
  }
  return true;
}();

}  // namespace
}  // namespace quire
