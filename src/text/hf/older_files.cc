// See older_files.h.
#include "text/hf/older_files.h"

#include <algorithm>

#include "text/pretoken_names.h"

namespace quire {

namespace {

std::string_view take_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

Json added_json(const std::vector<AddedToken>& added) {
  Json::Array out;
  for (const AddedToken& t : added) {
    out.push_back(Json::Object{{"id", t.id}, {"content", t.text}, {"special", t.special}, {"normalized", false}});
  }
  return out;
}

Result<Json> qwen_pre_tokenizer() {
  QR_TRY(const NamedPreTokenizer* named, find_pre_tokenizer("qwen2"));
  Json split(Json::Object{
      {"type", "Split"}, {"pattern", Json::Object{{"Regex", named->patterns().front()}}}, {"behavior", "Isolated"}});
  Json bytes(Json::Object{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  return Json(Json::Object{{"type", "Sequence"}, {"pretokenizers", Json::Array{std::move(split), std::move(bytes)}}});
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_byte_level_files(ByteLevelFiles files, const HfContext& context) {
  Json::Array merges;
  for (std::string_view rest = files.merges; !rest.empty();) {
    const std::string_view line = take_line(rest);
    if (!line.empty() && !line.starts_with("#version")) merges.emplace_back(line);
  }
  const bool qwen = files.family.starts_with("Qwen2");
  Json pre(Json::Object{{"type", "ByteLevel"}, {"add_prefix_space", files.add_prefix_space}});
  if (qwen) {
    QR_TRY(pre, qwen_pre_tokenizer());
  }
  Json root;
  root.set("added_tokens", added_json(files.added));
  if (qwen) root.set("normalizer", Json::Object{{"type", "NFC"}});
  root.set("pre_tokenizer", std::move(pre));
  root.set("decoder", Json::Object{{"type", "ByteLevel"}});
  root.set("model", Json::Object{{"type", "BPE"}, {"vocab", std::move(files.vocab)}, {"merges", std::move(merges)}});
  return make_hf_tokenizer(root, context);
}

Result<std::unique_ptr<Tokenizer>> make_bert_vocab(std::string_view file, const HfContext& context, bool lowercase) {
  Json::Object vocab;
  Json::Array added;
  int cls = -1, sep = -1;
  for (int id = 0; !file.empty(); ++id) {
    const std::string text(take_line(file));
    vocab.emplace_back(text, id);
    const bool special = text == "[CLS]" || text == "[SEP]" || text == "[PAD]" || text == "[UNK]" || text == "[MASK]";
    if (special) added.push_back(Json::Object{{"id", id}, {"content", text}, {"special", true}, {"normalized", false}});
    if (text == "[CLS]") cls = id;
    if (text == "[SEP]") sep = id;
  }
  if (cls < 0 || sep < 0) return fail(Code::corrupt, "vocab.txt: [CLS] or [SEP] is missing");
  Json root;
  root.set("added_tokens", std::move(added));
  root.set("normalizer", Json::Object{{"type", "BertNormalizer"}, {"lowercase", lowercase}});
  root.set("pre_tokenizer", Json::Object{{"type", "BertPreTokenizer"}});
  root.set(
      "post_processor",
      Json::Object{{"type", "BertProcessing"}, {"cls", Json::Array{"[CLS]", cls}}, {"sep", Json::Array{"[SEP]", sep}}});
  root.set("decoder", Json::Object{{"type", "WordPiece"}});
  root.set("model", Json::Object{{"type", "WordPiece"}, {"vocab", std::move(vocab)}});
  HfContext named = context;
  if (named.cls.empty()) named.cls = "[CLS]";
  if (named.sep.empty()) named.sep = "[SEP]";
  if (named.unk.empty()) named.unk = "[UNK]";
  return make_hf_tokenizer(root, named);
}

}  // namespace quire
