// The head for multi-token prediction that the target carries guesses (DeepSeek-AI 2024, 2.2): one more layer of its
// own kind that goes on from its last states, token after token (spec/head_chain.h). It knows all of the target's
// tokens, so a guess is drawn as the target draws. A head that tells one token is asked again for the next ones, with
// what it left itself.
#include "model/mtp.h"

#include <string>

#include "spec/draft_pass.h"
#include "spec/head_chain.h"
#include "spec/mtp_pass.h"

namespace quire {
namespace {

const MtpHead& head_of(const ProposerEnv& env) { return *as_mtp_head(env.draft); }

HeadPassSize size_of(const ProposerEnv& env) { return HeadChain::size_of(env, env.draft->info().n_ctx); }

int64_t bytes(const ProposerOptions&, const ProposerEnv& env) { return MtpPass::bytes(head_of(env), size_of(env)); }

Status check(const ProposerEnv& env) {
  if (as_mtp_head(env.draft) == nullptr) return fail(Code::invalid, "the proposer \"mtp\" needs the model's own head");
  const ModelInfo &head = env.draft->info(), &target = env.target->info();
  QR_TRY_VOID(check_can_draft(head));
  if (head.n_embd != target.n_embd || head.n_vocab != target.n_vocab) {
    return fail(Code::invalid, "the proposer \"mtp\" has a head of another model: of " + std::to_string(head.n_embd) +
                                   " numbers and " + std::to_string(head.n_vocab) + " tokens, the model has " +
                                   std::to_string(target.n_embd) + " and " + std::to_string(target.n_vocab));
  }
  if (env.block_tokens % head.strip_tokens == 0) return {};
  return fail(Code::invalid, "block_tokens must be a multiple of the head's " + std::to_string(head.strip_tokens) +
                                 ", got " + std::to_string(env.block_tokens));
}

Result<std::unique_ptr<Proposer>> make(const ProposerOptions& options, const ProposerEnv& env) {
  QR_TRY_VOID(check(env));
  QR_TRY(Buffer memory, env.ops->allocate_arena(bytes(options, env)));
  const HeadPassSize size = size_of(env);
  return HeadChain::make(
      {.max_draft = options.max_draft,
       .max_side = options.max_side,
       .n_blocks = env.n_blocks,
       .size = size,
       .draws = HeadDraws::alike},
      env.draft->info().kv_layout,
      std::make_unique<MtpPass>(head_of(env), env.target->info().n_layers, *env.ops, size, std::move(memory)),
      *env.ops);
}
QR_REGISTER(ProposerEntry, "mtp", {make, bytes});

}  // namespace
}  // namespace quire
