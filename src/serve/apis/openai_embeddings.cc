// POST /v1/embeddings: a vector for each input, pooled from the hidden states of the decoder that also answers.
#include <bit>
#include <cmath>

#include "serve/api.h"
#include "serve/openai.h"

namespace quire {
namespace {

static_assert(std::endian::native == std::endian::little, "base64 carries little-endian floats");

constexpr Field kFields[] = {
    field_of("input", kString | kArray),
    field_of("model", kString, &ServeLimits::name_bytes),
    field_of("encoding_format", kString),
    integer_field("dimensions", 1, kNoMax),
    field_of("pooling", kString),
    flag_field("normalize"),
    flag_field("add_special_tokens"),
    field_of("cache_salt", kString, &ServeLimits::name_bytes),
    field_of("prefix", kString, &ServeLimits::name_bytes),
    integer_field("priority", -1000, 1000),
    unsupported("truncate_prompt_tokens"),
    ignored_field("user"),
};
const Schema kSchema({kFields});

void append_base64(std::string& out, std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i)
      group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (size_t i = 0; i < 4; ++i) out += at + i > bytes.size() ? '=' : kDigits[group >> (18 - 6 * i) & 63];
  }
}

class Writer final : public ReplyWriter {
 public:
  Writer(std::string_view model, bool base64, bool normalize) : base64_(base64), normalize_(normalize) {
    append_json_string(model_, model);
  }
  // Never streamed.
  void begin(int64_t, std::string&) override {}
  void delta(int, const Delta&, std::string&) override {}
  void finish(int, const Ending&, std::string&) override {}
  void end(const UsageTotals&, std::string&) override {}
  void error(const HttpError& error, std::string& out) override { out += error_body(error); }
  Pieces body(std::vector<ChoiceResult> choices, const UsageTotals& usage) override {
    Pieces out;
    out.add("{\"object\":\"list\",\"data\":[");
    const size_t n_choices = choices.size();
    const auto all = std::make_shared<std::vector<ChoiceResult>>(std::move(choices));
    out.add_list(n_choices, [this, all](size_t i, std::string& text) {
      text += "{\"object\":\"embedding\",\"index\":" + std::to_string((*all)[i].index) + ",\"embedding\":";
      append_vector(text, std::move((*all)[i].pooled));
      text += '}';
    });
    const std::string n = std::to_string(usage.n_prompt);
    out.add("],\"model\":" + model_ + ",\"usage\":{\"prompt_tokens\":" + n + ",\"total_tokens\":" + n + "}}");
    return out;
  }

 private:
  void append_vector(std::string& out, std::vector<float> values) const {
    double sum = 0;
    for (const float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
    if (normalize_ && sum > 0) {
      const double scale = 1.0 / std::sqrt(sum);
      for (float& v : values) v = static_cast<float>(v * scale);
    }
    if (base64_) {
      out += '"';
      append_base64(out, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
      out += '"';
      return;
    }
    out += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out += ',';
      append_json_number(out, static_cast<double>(values[i]));
    }
    out += ']';
  }

  const bool base64_, normalize_;
  std::string model_;
};

ApiResult<void> add_input(const Json& one, const std::string& path, const Args& args, const ServeEnv& env, Job& job) {
  std::vector<Token>& out = job.prompts.emplace_back();
  if (const std::string* text = one.as_string()) {
    if (text->empty()) return refuse(bad_field(path, "is empty"));
    const EncodeOptions options{.add_special = args.flag("add_special_tokens", true), .parse_special = false};
    if (const Status done = env.tokenizer->encode(*text, options, out); !done)
      return refuse(to_http_error(done.error(), path));
    if (out.empty()) return refuse(bad_field(path, "holds no tokens"));
    return {};
  }
  if (one.as_array() == nullptr)
    return refuse(bad_field(path, "must be a string or a list of token ids", "invalid_type"));
  if (one.as_array()->empty()) return refuse(bad_field(path, "is empty"));
  return read_token_ids(one, path, env.tokenizer->n_vocab(), out);
}

ApiResult<void> read_inputs(const Args& args, const ServeEnv& env, Job& job) {
  const Json* input = args.find("input");
  if (input == nullptr) return refuse(missing_field("input"));
  const Json::Array* list = input->as_array();
  if (list == nullptr || (!list->empty() && (*list)[0].is_number())) return add_input(*input, "input", args, env, job);
  const auto n = static_cast<int64_t>(list->size());
  if (n == 0) return refuse(bad_field("input", "is empty"));
  if (n > env.limits.n_prompts) return refuse(over_limit("input", "entries", n, env.limits.n_prompts));
  for (int64_t i = 0; i < n; ++i)
    QR_TRY_VOID(add_input((*list)[static_cast<size_t>(i)], at_index("input", i), args, env, job));
  return {};
}

ApiResult<std::string_view> read_word(const Args& args, std::string_view name, std::string_view a, std::string_view b) {
  const std::string_view word = args.has(name) ? args.text(name) : a;
  if (word == a || word == b) return word;
  return refuse(bad_field(name, "is '" + shown(word) + "': it must be " + std::string(a) + " or " + std::string(b)));
}

ApiResult<void> check_dimensions(const Args& args, const ServeEnv& env) {
  if (env.card.n_embd == 0)
    return refuse(HttpError{400, "the model '" + env.models[0] + "' gives no embeddings", "invalid_request_error",
                            "model", "unsupported_model"});
  const int64_t wanted = args.integer("dimensions", env.card.n_embd);
  if (wanted == env.card.n_embd) return {};
  return refuse(unsupported_field("dimensions", "vectors of '" + env.models[0] + "' have " +
                                                    std::to_string(env.card.n_embd) + " and cannot be cut to " +
                                                    std::to_string(wanted)));
}

ApiResult<Call> parse(const ApiRequest& request, const ServeEnv& env) {
  const Args& args = request.args;
  Job job;
  QR_TRY_VOID(check_model(args.text("model"), env, request.reading.warnings));
  QR_TRY_VOID(check_dimensions(args, env));
  QR_TRY(const std::string_view format, read_word(args, "encoding_format", "float", "base64"));
  QR_TRY(const std::string_view pooling, read_word(args, "pooling", "last", "mean"));
  QR_TRY(job.generation, read_generation(args, env.limits, *env.tokenizer, env.sampling));
  QR_TRY(job.generation.prefix, read_prefix(args, args.text("model"), env));
  QR_TRY_VOID(read_inputs(args, env, job));
  job.pool = pooling == "mean" ? Pool::mean : Pool::last;
  job.generation.prompt_only = true;
  job.generation.ignore_eos = true;
  job.prompt_field = "input";
  job.writer =
      std::make_unique<Writer>(answering_model(env, job.generation), format == "base64", args.flag("normalize", true));
  return Call(std::move(job));
}

const Api kApi{{{.method = "POST",
                 .path = "/v1/embeddings",
                 .schema = &kSchema,
                 .parse = &parse,
                 .summary = "OpenAI: a vector for each input"}}};
QR_REGISTER(Api, "openai_embeddings", kApi);

}  // namespace
}  // namespace quire
