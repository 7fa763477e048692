// The one place where a pre-tokenizer is added: its patterns and a line in the table. The patterns are facts about the
// models, from their tokenizer.json or tiktoken definitions; where GGUF converters gave several families one name, the
// table has that name once. All but two run on the linear-time engine.
#include "text/pretoken_names.h"

#include <algorithm>
#include <initializer_list>

namespace quire {

namespace {

using View = std::string_view;
using Patterns = std::vector<std::string>;

constexpr View kContractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
constexpr View kSpaces = R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string join(std::initializer_list<View> parts) {
  std::string out;
  for (const View part : parts) out += part;
  return out;
}

// Words whose capitals end where small letters begin, each followed by `tail`.
std::string cased(View tail) {
  return join({R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)", tail,
               R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)", tail});
}
std::string cased_with_contractions() { return cased(join({kContractions, "?"})); }

// DeepSeek's later split: ASCII punctuation may lead a word, marks belong to words.
std::string marked(View tail) {
  return join({R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)",
               R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+)", tail});
}

std::string gpt2() { return std::string(kGpt2Pattern); }

Patterns original_default() { return {R"([\p{P}\$\+<=>\^~\|]+)", gpt2(), R"(\p{N}+)", "[0-9][0-9][0-9]"}; }
Patterns gpt2_alone() { return {gpt2()}; }
Patterns digits_gpt2() { return {R"(\p{N})", gpt2()}; }
Patterns llama3() {
  return {join({kContractions, R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)", kSpaces})};
}
Patterns cl100k() {
  return {join({R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+)",
                R"(|\s++$|\s*[\r\n]|\s+(?!\S)|\s)"})};
}
Patterns qwen2() {
  return {join({kContractions, R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)", kSpaces})};
}
Patterns qwen35() {
  return {join({kContractions, R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)", kSpaces})};
}
Patterns ufakzeka() { return {join({R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)", kSpaces})}; }
Patterns minicpm5() {
  return {R"(\p{N}{1,3})",
          join({kContractions, R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|)", kSpaces})};
}
Patterns seed_coder() {
  return {join({kContractions, R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)", kSpaces})};
}
Patterns laguna() {
  return {R"([^\n]+|[\n]+)",
          join({kContractions, R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)", kSpaces})};
}
Patterns exaone_moe() {
  return {
      join({kContractions, R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)",
            R"(|\s*[\r\n]|\s+(?!\S)|\s+)"})};
}
Patterns bailing() {
  return {
      R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};
}
Patterns jais2() {
  return {join({kContractions, R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)",
                R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S))",
                R"(|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"})};
}
Patterns o200k() { return {join({cased_with_contractions(), R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)", kSpaces})}; }
Patterns tekken() { return {join({cased(""), R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)", kSpaces})}; }
Patterns youtu() {
  return {
      join({R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+)",
            R"(|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F})",
            R"(\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+)"}),
      join({cased_with_contractions(), R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)", kSpaces})};
}
Patterns tiny_aya() {
  return {R"(\d{1,3}(?=(?:\d{3})*\b))",
          join({cased_with_contractions(), R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)", kSpaces})};
}
Patterns kimi_k2() {
  return {
      join({R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)",
            R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)", kContractions,
            R"(?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)",
            kContractions, R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)", kSpaces})};
}
Patterns deepseek_llm() {
  return {
      R"([\r\n])",
      join({R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF})",
            R"(\x{1C4}-\x{293}\x{295}-\x{2AF})",
            R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})",
            R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})",
            R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77})",
            R"(\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})",
            R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE})",
            R"(\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC})",
            R"(\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})",
            R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E})",
            R"(\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})",
            R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF})",
            R"(\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})",
            R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})",
            R"(\x{1E900}-\x{1E943}]+)"}),
      R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
      R"(\s+$)",
      R"([\x{800}-\x{9FA5}\x{AC00}-\x{D7FF}]+)",
      R"(\p{N}+)"};
}
Patterns deepseek_coder() {
  return {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"([\x{800}-\x{9FA5}\x{AC00}-\x{D7FF}]+)", R"(\p{N})"};
}
Patterns deepseek3() {
  return {R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+)", join({marked(R"([\r\n]*|)"), kSpaces})};
}
Patterns spark25() {
  return {R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+)", marked(R"(|[\r\n]|\s+(?!\S)|\s+)"), R"(\p{N})"};
}
// Digits in groups of three counted from the right: the first group of a run takes what is over.
Patterns afmoe() {
  return {
      R"(\p{Nd}{1,3}(?=(?:\p{Nd}{3})*(?!\p{Nd})))",
      join(
          {R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{30FF}\x{FF65}-\x{FF9F})",
           R"(\x{2F00}-\x{2FDF}\x{E40}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)"}),
      join({marked(R"([\r\n]*|)"), kSpaces})};
}
// Its digit steps stand behind ByteLevel, so they also cut at the bytes B2 B3 B9 BC BD BE, which look like numbers.
Patterns falcon() {
  return {R"([\p{P}\$\+<=>\^~\|`]+)", gpt2(), std::string(kToByteChars), R"(\p{N}+)", "[0-9][0-9][0-9]"};
}
Patterns bloom() { return {R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)"}; }
Patterns viking() { return {R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)", R"(\p{N})"}; }
Patterns chameleon() {
  return {R"(<sentinel:[0-9]+>)",    R"((?:IMGIMG)(?:(?:A|B|C|D|E|F|G|H|I){1,4})Z)",
          R"((?:[\t\n]|    |  ))",   R"(\p{N})",
          R"([\p{P}!-/:-@\[-`{-~])", gpt2()};
}
Patterns superbpe() { return {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}; }
Patterns lines() { return {R"([^\n]+|[\n]+)"}; }

const NamedPreTokenizer kTable[] = {
    {.names = "default", .patterns = original_default},
    {.names = "gpt-2 gpt2 phi-2 jais trillion granite-docling jina-es jina-de jina-v2-es jina-v2-de jina-v1-en "
              "jina-v2-code roberta-bpe gigachat a.x-4.0 mellum exaone4",
     .patterns = gpt2_alone},
    {.names = "olmo gpt-neox mpt modern-bert", .patterns = gpt2_alone, .nfc = true},
    {.names = "starcoder refact smollm codeshell exaone minerva-7b mellum2", .patterns = digits_gpt2},
    {.names = "command-r", .patterns = digits_gpt2, .nfc = true},
    {.names = "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .patterns = llama3,
     .whole_word = true,
     .adds_bos = true},
    {.names = "cl100k", .patterns = cl100k},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe", .patterns = llama3},
    {.names = "qwen2 deepseek-r1-qwen megrez", .patterns = qwen2, .nfc = true},
    {.names = "kormo f2llmv2 stablelm2 hunyuan solar-open grok-2", .patterns = qwen2},
    {.names = "qwen35", .patterns = qwen35, .nfc = true},
    {.names = "ufakzeka", .patterns = ufakzeka},
    {.names = "minicpm5", .patterns = minicpm5, .whole_word = true},
    {.names = "seed-coder", .patterns = seed_coder},
    {.names = "laguna", .patterns = laguna},
    {.names = "exaone-moe", .patterns = exaone_moe},
    {.names = "bailingmoe bailingmoe2 llada-moe", .patterns = bailing},
    {.names = "jais-2", .patterns = jais2},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2 o200k", .patterns = o200k},
    {.names = "granite-embed-multi-97m", .patterns = o200k, .whole_word = true},
    {.names = "tekken", .patterns = tekken, .whole_word = true, .adds_bos = true},
    {.names = "youtu", .patterns = youtu, .whole_word = true},
    {.names = "tiny_aya cohere2moe", .patterns = tiny_aya},
    {.names = "kimi-k2", .patterns = kimi_k2, .whole_word = true},
    {.names = "deepseek-llm", .patterns = deepseek_llm},
    {.names = "deepseek-coder", .patterns = deepseek_coder},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4", .patterns = deepseek3},
    {.names = "spark2_5", .patterns = spark25},
    {.names = "afmoe", .patterns = afmoe},
    {.names = "falcon", .patterns = falcon},
    {.names = "bloom poro-chat gpt3-finnish", .patterns = bloom},
    {.names = "viking", .patterns = viking},
    {.names = "chameleon", .patterns = chameleon, .adds_bos = true},
    {.names = "superbpe", .patterns = superbpe},
    {.names = "gemma4 granite-embed-multi-311m", .patterns = lines, .characters = true, .adds_bos = true},
    {.names = "sarvam-moe", .patterns = lines, .characters = true},
};

bool lists(View names, View wanted) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == wanted) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

std::span<const NamedPreTokenizer> all_pre_tokenizers() { return kTable; }

Result<const NamedPreTokenizer*> find_pre_tokenizer(std::string_view name) {
  if (name.empty()) return &kTable[0];
  for (const NamedPreTokenizer& entry : kTable) {
    if (lists(entry.names, name)) return &entry;
  }
  return fail(Code::unsupported, "tokenizer: pre-tokenizer \"" + std::string(name) + "\" is not known");
}

Result<PreTokenizer> make_pre_tokenizer(const NamedPreTokenizer& named) {
  PreTokenizer steps;
  for (const std::string& pattern : named.patterns()) {
    if (pattern == kToByteChars) {
      steps.push_back(make_to_byte_chars());
      continue;
    }
    QR_TRY(auto step, make_pattern_split(pattern));
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace quire
