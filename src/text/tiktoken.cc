// See tiktoken.h.
#include "text/tiktoken.h"

#include <algorithm>
#include <charconv>

#include "text/byte_bpe.h"
#include "text/hf/base64.h"
#include "text/pipeline.h"
#include "text/pretoken_names.h"

namespace quire {

namespace {

constexpr size_t kMaxTokenBytes = 4096;

struct Family {
  size_t n_ranks;
  std::string_view pre;  // a name of pretoken_names.cc
};
constexpr Family kFamilies[] = {
    {50256, "gpt-2"},                        // r50k
    {50280, "gpt-2"},                        // p50k
    {100256, "cl100k"},                      // GPT-4
    {128000, "llama3"},  {151643, "qwen2"},  // NFC is not part of tiktoken's own pipeline, but of Qwen's
    {163584, "kimi-k2"}, {199998, "o200k"},
};

struct Special {
  size_t n_ranks;
  std::string_view text;
  Token id;
};
constexpr Special kSpecials[] = {
    {50256, "<|endoftext|>", 50256},         {50280, "<|endoftext|>", 50256},       {100256, "<|endoftext|>", 100257},
    {100256, "<|fim_prefix|>", 100258},      {100256, "<|fim_middle|>", 100259},    {100256, "<|fim_suffix|>", 100260},
    {100256, "<|endofprompt|>", 100276},     {128000, "<|begin_of_text|>", 128000}, {128000, "<|end_of_text|>", 128001},
    {128000, "<|start_header_id|>", 128006}, {128000, "<|end_header_id|>", 128007}, {128000, "<|eom_id|>", 128008},
    {128000, "<|eot_id|>", 128009},          {151643, "<|endoftext|>", 151643},     {151643, "<|im_start|>", 151644},
    {151643, "<|im_end|>", 151645},          {199998, "<|endoftext|>", 199999},     {199998, "<|endofprompt|>", 200018},
};

std::string_view take_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool split_line(std::string_view line, std::string_view& token, uint32_t& rank) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0) return false;
  token = line.substr(0, space);
  const std::string_view number = line.substr(space + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
  return error == std::errc() && end == number.data() + number.size();
}

tl::unexpected<Error> bad_line(size_t line, const std::string& what) {
  return fail(Code::corrupt, "tiktoken: line " + std::to_string(line) + ": " + what);
}

Result<std::vector<std::string>> read_ranks(std::string_view file) {
  std::vector<std::string> tokens;
  constexpr size_t kMaxGaps = size_t{1} << 16;  // a small file must not ask for much memory
  const size_t max_rank = static_cast<size_t>(std::count(file.begin(), file.end(), '\n')) + kMaxGaps;
  for (size_t line = 1; !file.empty(); ++line) {
    const std::string_view text = take_line(file);
    if (text.empty()) continue;
    std::string_view coded;
    uint32_t rank = 0;
    if (!split_line(text, coded, rank)) return bad_line(line, "not a token and its rank");
    if (rank >= max_rank) return bad_line(line, "rank " + std::to_string(rank) + " is above the limit");
    auto bytes = decode_base64(coded);
    if (!bytes) return bad_line(line, bytes.error().message);
    if (bytes->empty() || bytes->size() > kMaxTokenBytes) return bad_line(line, "token length");
    if (rank >= tokens.size()) tokens.resize(rank + 1);
    if (!tokens[rank].empty()) return bad_line(line, "rank " + std::to_string(rank) + " is there twice");
    tokens[rank] = std::move(*bytes);
  }
  QR_TRY_VOID(check_token_lengths(tokens));
  return tokens;
}

std::vector<AddedToken> specials_of(size_t n_ranks, const TiktokenContext& context) {
  if (!context.added.empty()) return context.added;
  std::vector<AddedToken> out;
  for (const Special& s : kSpecials) {
    if (s.n_ranks == n_ranks) out.push_back({std::string(s.text), s.id, true});
  }
  return out;
}

Result<PreTokenizer> pre_tokenizer_of(size_t n_ranks) {
  for (const Family& family : kFamilies) {
    if (family.n_ranks != n_ranks) continue;
    QR_TRY(const NamedPreTokenizer* named, find_pre_tokenizer(family.pre));
    return make_pre_tokenizer(*named);
  }
  return fail(Code::unsupported,
              "tiktoken: no family with " + std::to_string(n_ranks) + " ranks is known, so its pattern is not either");
}

}  // namespace

bool looks_like_tiktoken(std::string_view file) {
  std::string_view token;
  uint32_t rank = 0;
  return split_line(take_line(file), token, rank) && decode_base64(token).has_value();
}

Result<std::unique_ptr<Tokenizer>> make_tiktoken(std::string_view file, const TiktokenContext& context) {
  QR_TRY(std::vector<std::string> tokens, read_ranks(file));
  const size_t n_ranks = tokens.size();
  PipelineSpec parts;
  QR_TRY(parts.pre_tokenizer, pre_tokenizer_of(n_ranks));
  std::vector<AddedToken> added = specials_of(n_ranks, context);
  TokenizerSpec spec;
  spec.model = "tiktoken";
  for (const AddedToken& t : added) {
    if (t.id < 0 || static_cast<size_t>(t.id) >= n_ranks + (size_t{1} << 16))
      return fail(Code::corrupt, "tiktoken: special id " + std::to_string(t.id));
    if (static_cast<size_t>(t.id) >= tokens.size()) tokens.resize(static_cast<size_t>(t.id) + 1);
    tokens[static_cast<size_t>(t.id)] = t.text;
  }
  spec.types.assign(tokens.size(), TokenType::normal);
  parts.hidden.assign(tokens.size(), false);
  ByteBpeSpec bpe;
  bpe.whole_word = true;
  bpe.mergeable.assign(tokens.size(), true);
  std::vector<uint32_t> ranks(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) ranks[id] = static_cast<uint32_t>(id);
  for (const AddedToken& t : added) {
    const auto id = static_cast<size_t>(t.id);
    spec.types[id] = t.special ? TokenType::control : TokenType::user_defined;
    parts.hidden[id] = t.special;
    bpe.mergeable[id] = false;
    ranks[id] = Merge::kNever;
    if (t.text == "<|endoftext|>" || t.text == "<|end_of_text|>") spec.eos = t.id;
    if (t.text == "<|begin_of_text|>") spec.bos = t.id;
    if (t.text == "<|eot_id|>" || t.text == "<|im_end|>") spec.eot = t.id;
  }
  spec.tokens = tokens;
  spec.chat_template = context.chat_template;
  spec.add_bos = spec.bos >= 0;
  if (spec.add_bos) parts.prefix.push_back(spec.bos);
  TokenIndex index;
  index.build(tokens, bpe.mergeable);
  bpe.rules = rules_from_ranks(index, ranks);
  bpe.tokens = std::move(tokens);
  parts.token_bytes = bpe.tokens;
  parts.model = std::make_unique<ByteBpe>(bpe);
  parts.added = AddedTokens(std::move(added));
  return std::make_unique<Pipeline>(std::move(spec), std::move(parts));
}

}  // namespace quire
