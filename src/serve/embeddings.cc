#include "serve/embeddings.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "serve/openai.h"

namespace quire {
namespace {

static_assert(std::endian::native == std::endian::little, "base64 carries little-endian floats");

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
  Writer(std::string_view model, const EmbeddingForm& form) : form_(form) { append_json_string(model_, model); }
  // Never streamed.
  void begin(int64_t, std::string&) override {}
  void delta(int, const Delta&, std::string&) override {}
  void finish(int, const Ending&, std::string&) override {}
  void end(const UsageTotals&, std::string&) override {}
  void error(const HttpError& error, std::string& out) override { out += error_body(error); }
  Pieces body(std::vector<ChoiceResult> choices, const UsageTotals& usage) override {
    Pieces out;
    out.add(head());
    const size_t n = choices.size();
    const auto all = std::make_shared<std::vector<ChoiceResult>>(std::move(choices));
    out.add_list(n, [this, all](size_t i, std::string& text) { append_item(text, (*all)[i]); });
    out.add(tail(usage));
    return out;
  }

 private:
  using Kind = EmbeddingForm::Json;

  std::string head() const {
    switch (form_.json) {
      case Kind::openai: return "{\"object\":\"list\",\"data\":[";
      case Kind::ollama: return "{\"model\":" + model_ + ",\"embeddings\":[";
      case Kind::ollama_one: return "{\"embedding\":";
      case Kind::llama: return "[";
    }
    return {};
  }
  void append_item(std::string& out, ChoiceResult& one) const {
    const std::string index = "\"index\":" + std::to_string(one.index);
    if (form_.json == Kind::openai) out += "{\"object\":\"embedding\"," + index + ",\"embedding\":";
    if (form_.json == Kind::llama) out += "{" + index + ",\"embedding\":[";
    if (form_.n_embd > 0)
      append_rows(out, one.pooled);
    else
      append_vector(out, std::move(one.pooled));
    if (form_.json == Kind::openai) out += '}';
    if (form_.json == Kind::llama) out += "]}";
  }
  void append_rows(std::string& out, const std::vector<float>& values) const {
    const auto n = static_cast<size_t>(form_.n_embd);
    for (size_t at = 0; at + n <= values.size(); at += n) {
      if (at > 0) out += ',';
      const auto row = values.begin() + static_cast<std::ptrdiff_t>(at);
      append_vector(out, {row, row + static_cast<std::ptrdiff_t>(n)});
    }
  }
  std::string tail(const UsageTotals& usage) const {
    const std::string n = std::to_string(usage.n_prompt);
    switch (form_.json) {
      case Kind::openai:
        return "],\"model\":" + model_ + ",\"usage\":{\"prompt_tokens\":" + n + ",\"total_tokens\":" + n + "}}";
      case Kind::ollama:
        return "],\"total_duration\":" + std::to_string(usage.total_ns) +
               ",\"load_duration\":0,\"prompt_eval_count\":" + n + "}";
      case Kind::ollama_one: return "}";
      case Kind::llama: return "]";
    }
    return {};
  }
  void append_vector(std::string& out, std::vector<float> values) const {
    double sum = 0;
    for (const float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
    if (form_.normalize && sum > 0) {
      const double scale = 1.0 / std::sqrt(sum);
      for (float& v : values) v = static_cast<float>(v * scale);
    }
    if (form_.base64) {
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

  const EmbeddingForm form_;
  std::string model_;
};

constexpr Field kObjectFields[] = {field_of("prompt_string", kString), field_of("content", kArray)};
const Schema kObjectSchema({kObjectFields});

ApiResult<void> add_text(std::string_view text, const std::string& path, const InputReader& reader, Job& job) {
  if (text.empty() && job.prompts.back().empty()) return refuse(bad_field(path, "is empty"));
  EncodeOptions options = reader.options;
  options.add_special = options.add_special && job.prompts.back().empty();
  return encode_text(*reader.env.tokenizer, text, options, path, job.prompts.back());
}

// Texts and ids; what stands before a text that begins the prompt is put there.
ApiResult<void> add_mixed(const Json::Array& list, const std::string& path, const InputReader& reader, Job& job) {
  if (list.empty()) return refuse(bad_field(path, "is empty"));
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = at_index(path, static_cast<int64_t>(i));
    if (const std::string* text = list[i].as_string()) {
      QR_TRY_VOID(add_text(*text, at, reader, job));
    } else if (list[i].is_number()) {
      QR_TRY(job.prompts.back().emplace_back(), read_token_id(list[i], path, i, reader.env.tokenizer->n_vocab()));
    } else {
      return refuse(bad_field(at, "must be a string or a token id", "invalid_type"));
    }
  }
  return {};
}

ApiResult<void> add_object(const Json& one, const std::string& path, const InputReader& reader, Job& job) {
  QR_TRY(const Args args, kObjectSchema.check(one, reader.reading, path));
  if (args.has("prompt_string"))
    return add_text(args.text("prompt_string"), at_key(path, "prompt_string"), reader, job);
  const Json* content = args.find("content");
  if (content == nullptr) return refuse(missing_field(at_key(path, "prompt_string")));
  std::string text;
  for (const Json& part : *content->as_array()) {
    const Json *type = part.find("type"), *piece = part.find("text");
    if (type == nullptr || *type != Json("text") || piece == nullptr || piece->as_string() == nullptr)
      return refuse(unsupported_field(at_key(path, "content"), "only parts of type text are"));
    text += *piece->as_string();
  }
  return add_text(text, at_key(path, "content"), reader, job);
}

ApiResult<void> add_input(const Json& one, const std::string& path, const InputReader& reader, Job& job) {
  std::vector<Token>& out = job.prompts.emplace_back();
  if (const std::string* text = one.as_string()) {
    QR_TRY_VOID(add_text(*text, path, reader, job));
  } else if (one.as_array() != nullptr) {
    QR_TRY_VOID(add_mixed(*one.as_array(), path, reader, job));
  } else if (one.as_object() != nullptr) {
    QR_TRY_VOID(add_object(one, path, reader, job));
  } else {
    return refuse(bad_field(path, "must be a string or a list of token ids", "invalid_type"));
  }
  if (out.empty()) return refuse(bad_field(path, "holds no tokens"));
  return {};
}

ApiResult<void> check_dimensions(int64_t wanted, const ServeEnv& env) {
  if (env.card.n_embd == 0)
    return refuse(HttpError{400, "the model '" + env.models[0] + "' gives no embeddings", "invalid_request_error",
                            "model", "unsupported_model"});
  if (wanted == env.card.n_embd) return {};
  return refuse(unsupported_field("dimensions", "vectors of '" + env.models[0] + "' have " +
                                                    std::to_string(env.card.n_embd) + " and cannot be cut to " +
                                                    std::to_string(wanted)));
}

}  // namespace

ApiResult<Job> begin_embedding(const ApiRequest& request, std::string_view model, const ServeEnv& env) {
  const Args& args = request.args;
  Job job;
  QR_TRY(AskedModel asked, check_model(model, env, request.reading.warnings));
  QR_TRY_VOID(check_dimensions(args.integer("dimensions", env.card.n_embd), env));
  QR_TRY(job.generation, read_generation(args, env.limits, *env.tokenizer, env.sampling));
  QR_TRY_VOID(read_learned(args, std::move(asked), env, job.generation));
  return job;
}

ApiResult<void> add_inputs(const Json* input, const std::string& path, const InputReader& reader, Job& job) {
  if (input == nullptr) return refuse(missing_field(path));
  const Json::Array* list = input->as_array();
  const bool one =
      list == nullptr || std::any_of(list->begin(), list->end(), [](const Json& entry) { return entry.is_number(); });
  if (one) return add_input(*input, path, reader, job);
  const auto n = static_cast<int64_t>(list->size());
  QR_TRY_VOID(check_prompts(path, n, 1, "inputs", reader.env.limits));
  for (int64_t i = 0; i < n; ++i)
    QR_TRY_VOID(add_input((*list)[static_cast<size_t>(i)], at_index(path, i), reader, job));
  return {};
}

Call embedding_job(Job&& job, Pool pool, const EmbeddingForm& form, const ServeEnv& env) {
  job.pool = pool;
  job.generation.prompt_only = true;
  job.generation.ignore_eos = true;
  job.writer = std::make_unique<Writer>(answering_model(env, job.generation), form);
  return Call(std::move(job));
}

}  // namespace quire
