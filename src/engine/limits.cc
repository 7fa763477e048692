#include "engine/limits.h"

#include <algorithm>
#include <string>

#include "base/memory.h"
#include "engine/batcher.h"

namespace quire {
namespace {

Status check_ids(const Request& request, int n_vocab) {
  const auto outside = [n_vocab](Token id) { return id < 0 || id >= n_vocab; };
  const auto refuse = [n_vocab](const char* what, Token id) {
    return fail(Code::invalid, std::string(what) + " names token " + std::to_string(id) + "; the vocabulary has 0 to " +
                                   std::to_string(n_vocab - 1));
  };
  for (const Token id : request.prompt) {
    if (outside(id)) return refuse("the prompt", id);
  }
  const SamplingParams& sampling = request.sampling;
  for (const Edit& edit : sampling.logit_bias) {
    if (outside(edit.id)) return refuse("logit_bias", edit.id);
  }
  for (const Token id : sampling.allowed_ids) {
    if (outside(id)) return refuse("allowed_token_ids", id);
  }
  for (const std::vector<Token>& word : sampling.bad_words) {
    const auto at = std::find_if(word.begin(), word.end(), outside);
    if (at != word.end()) return refuse("bad_words", *at);
  }
  return {};
}

}  // namespace

Status check_options(const EngineOptions& o, int kv_group) {
  const auto range = [](const char* name, int value, int lo, int hi) -> Status {
    if (value >= lo && value <= hi) return {};
    return fail(Code::invalid, std::string(name) + " must be " + std::to_string(lo) + " to " + std::to_string(hi) +
                                   ", got " + std::to_string(value));
  };
  QR_TRY_VOID(range("max_seqs", o.max_seqs, 1, 4096));
  QR_TRY_VOID(range("step_tokens", o.step_tokens, 1, 1 << 16));
  QR_TRY_VOID(range("max_chunk", o.max_chunk, 1, 1 << 16));
  QR_TRY_VOID(range("n_ctx", o.n_ctx, 2, 1 << 28));
  QR_TRY_VOID(range("max_queue", o.max_queue, 1, 1 << 20));
  if (!(o.itl_target_ms >= 0 && o.itl_target_ms <= 60'000)) {
    return fail(Code::invalid, "itl_target_ms must be 0 to 60000, got " + std::to_string(o.itl_target_ms));
  }
  if (o.block_tokens < kv_group || o.block_tokens > 4096 || o.block_tokens % kv_group != 0) {
    return fail(Code::invalid, "block_tokens must be a multiple of " + std::to_string(kv_group) + " up to 4096, got " +
                                   std::to_string(o.block_tokens));
  }
  return {};
}

Status check_request(Request& request, const RequestLimits& limits) {
  if (request.prompt.empty()) return fail(Code::invalid, "the prompt has no tokens; at least 1 is needed");
  if (request.max_tokens < 1) {
    return fail(Code::invalid, "max_tokens must be at least 1, got " + std::to_string(request.max_tokens));
  }
  if (request.prompt.size() >= static_cast<size_t>(limits.n_ctx)) {
    return fail(Code::invalid, "the prompt has " + std::to_string(request.prompt.size()) + " tokens; the context of " +
                                   std::to_string(limits.n_ctx) + " leaves room for at most " +
                                   std::to_string(limits.n_ctx - 1));
  }
  QR_TRY_VOID(check_ids(request, limits.n_vocab));
  const auto n_prompt = static_cast<int>(request.prompt.size());
  if (request.n_public < 0 || request.n_public > n_prompt) {
    return fail(Code::invalid, "n_public must be 0 to the prompt's " + std::to_string(n_prompt) + " tokens, got " +
                                   std::to_string(request.n_public));
  }
  request.max_tokens = std::min(request.max_tokens, limits.n_ctx - n_prompt);
  const int n_tokens = n_prompt + request.max_tokens - 1;  // the last token's keys are never needed
  const int n_blocks = (n_tokens + limits.block_tokens - 1) / limits.block_tokens;
  if (n_blocks > limits.n_blocks) {
    return fail(Code::exhausted, "prompt and answer of " + std::to_string(n_tokens) + " tokens need " +
                                     std::to_string(n_blocks) + " cache blocks; there are " +
                                     std::to_string(limits.n_blocks));
  }
  return {};
}

// What eight full contexts need, but no more than a quarter of the memory that is available now; half of it where one
// context takes that. Under one context the longest requests are refused, which is better than being killed later.
int64_t default_kv_bytes(int64_t context_bytes, int64_t block_bytes, int max_seqs) {
  const int64_t available = available_memory();
  const int64_t room = std::max(available / 4, std::min(context_bytes, available / 2));
  return std::max(block_bytes, std::min(context_bytes * std::min(max_seqs, 8), room));
}

int64_t scratch_bytes(const Model& model, const EngineOptions& options) {
  const int64_t rows_out = std::min(options.max_seqs, options.step_tokens);
  return model.arena_bytes(options.step_tokens, rows_out) +
         batch_bytes(options.step_tokens, rows_out, options.n_ctx, options.block_tokens);
}

Result<int> count_blocks(const EngineOptions& options, int64_t block_bytes) {
  const int64_t n_blocks = options.kv_bytes / block_bytes;
  const int64_t most = (int64_t{1} << 31) / options.block_tokens - 1;  // a slot is an int32
  if (n_blocks < 1 || n_blocks > most) {
    return fail(Code::invalid, "kv memory of " + std::to_string(options.kv_bytes) + " bytes makes " +
                                   std::to_string(n_blocks) + " blocks of " + std::to_string(block_bytes) +
                                   " bytes; 1 to " + std::to_string(most) + " are possible");
  }
  return static_cast<int>(n_blocks);
}

}  // namespace quire
