// What this room holds for clients.
#include "base/held_memory.h"

#include "engine/engine.h"
#include "engine/queue_shares.h"
#include "http/limits.h"
#include "serve/call_plans.h"
#include "serve/choice.h"
#include "serve/grammar_cache.h"
#include "serve/held_bytes.h"
#include "serve/limits.h"
#include "serve/recent_salts.h"
#include "serve/run.h"
#include "text/jinja/limits.h"
#include "text/kept_vector.h"

namespace quire {
namespace {

std::vector<HeldRow> rows() {
  const ServeLimits l;
  const HttpLimits http;
  const ServeOptions serve;
  const TemplateLimits chat;
  const auto rendering = static_cast<int64_t>(chat.memory_bytes + chat.output_bytes);
  constexpr int64_t matcher = 28 << 20;  // grammar/automaton.h and workspace.h: 24 + 4
  const EngineOptions engine;
  const int64_t n_sequences = QueueShares::places(engine.max_queue) + engine.max_seqs;
  const auto compiled = static_cast<int64_t>(GrammarLimits().memory_bytes);
  constexpr auto trace = static_cast<int64_t>(sizeof(RequestTrace) + 32 * sizeof(SequenceTrace));
  return {
      {.what = "bodies waiting to be parsed and tokenised",
       .of_request = {"body_bytes", http.body_bytes},
       .in_all = {"prep_bytes, of all_body_bytes too", l.prep_bytes},
       .test = "Lifecycle.TooManyWaitingBytesAre429"},
      {.what = "trees of the bodies being parsed",
       .of_request = {"kTreeBytes (40) × body_bytes", kTreeBytes * http.body_bytes},
       .in_all = {"… × prep threads", kTreeBytes * http.body_bytes * serve.n_prep_threads},
       .test = "JsonParse.ATreeIsNoLargerThanItsTextAllows"},
      {.what = "what the tokenizer takes while it reads texts, and keeps for the next",
       .of_request = {"kEncodeBytes (128) × body_bytes", kEncodeBytes * http.body_bytes},
       .in_all = {"(… + 4 × 64 KiB) × prep threads",
                  (kEncodeBytes * http.body_bytes + int64_t{4 * kKeptBytes}) * serve.n_prep_threads},
       .test = "HostileTokenizer.WorkingMemoryIsBoundedAndGivenBack"},
      {.what = "fields that every event of /v1/responses repeats (metadata, instructions)",
       .of_request = {"body_bytes", http.body_bytes},
       .of_connection = {"body_bytes", http.body_bytes},
       .in_all = {"body_bytes × n_connections", http.body_bytes * http.n_connections},
       .test = "Responses.WhatTheirEventsRepeatIsTheirOwnBody"},
      {.what = "values and text of the chat templates being rendered",
       .of_request = {"template_memory_bytes + template_output_bytes", rendering},
       .in_all = {"… × prep threads", rendering * serve.n_prep_threads},
       .test = "ChatTemplateLimits.StopBombs"},
      {.what =
           "prompts as tokens and their choices, tokens that are not read yet, answers that are made before they are "
           "sent, replies that need no engine",
       .of_request = {"answer_bytes + unread_bytes + 4 × body_bytes + n_sequences × a choice",
                      l.answer_bytes + l.unread_bytes + int64_t{sizeof(Token)} * http.body_bytes +
                          l.n_sequences * int64_t{sizeof(Choice)}},
       .in_all = {"answers_bytes + 64 KiB × (n_connections + n_resumable)",
                  l.answers_bytes + HeldBytes::kFreeBytes * (http.n_connections + l.n_resumable)},
       .test = "LargeAnswers.AllTogetherHaveABound"},
      {.what = "answers of /v1/responses that are kept",
       .of_request = {"stored_bytes_each", l.stored_bytes_each},
       .of_key = {"stored_bytes_each", l.stored_bytes_each},
       .in_all = {"stored_bytes", l.stored_bytes},
       .test = "ResponseStore.OneTenantsAnswersPushNoOthersOut"},
      {.what = "newest events of resumable streams",
       .of_request = {"resumable_bytes", l.resumable_bytes},
       .of_key = {"resumable_bytes × n_resumable_each", l.resumable_bytes * l.n_resumable_each},
       .in_all = {"resumable_bytes × n_resumable", l.resumable_bytes * l.n_resumable},
       .test = "Resumable.ForgetsOldEventsAndSaysSo"},
      {.what = "compiled grammars that are kept for the next requests",
       .in_all = {"grammar_bytes", l.grammar_bytes},
       .test = "GrammarCache.IsBoundedAndKeepsWhatWasUsedLast"},
      {.what = "compiled grammars that requests alone hold, and those that are being compiled",
       .of_request = {"64 MiB", compiled},
       .in_all = {"4 × grammar_bytes + 64 MiB × prep threads",
                  GrammarCache::kElsewhere * l.grammar_bytes + compiled * (serve.n_prep_threads + 1)},
       .test = "GrammarCache.WhatRequestsHoldBesideItIsBounded"},
      {.what = "what grammars have worked out for sequences that run or were sent back",
       .of_request = {"n_sequences × 28 MiB", l.n_sequences * matcher},
       .in_all = {"(max_queue × 9/8 + max_seqs) × 28 MiB", n_sequences * matcher},
       .test = "GrammarMatcher.LeavesWhatItLearnedToTheNextWithoutChangingIt"},
      {.what = "what a request's tools come to, kept for the next requests",
       .of_request = {"32 MiB", CallPlans::kBytes},
       .in_all = {"32 MiB", CallPlans::kBytes},
       .test = "CallPlans.TheOldestGoFirstAndNothingIsHeldBeyondItsBytes"},
      {.what = "adapters that the operator loads, and those that requests still hold",
       .in_all = {"adapter_bytes", l.adapter_bytes},
       .test = "AdapterTable.HoldsNoMoreThanItsLimits"},
      {.what = "requests whose trace is not sent yet",
       .of_request = {"sequences that have spans", trace},
       .in_all = {"… × 4096", trace * static_cast<int64_t>(TraceOptions().queue)},
       .test = "Trace.AFullQueueDropsAndCounts"},
      {.what = "cache_salts that each key has named last",
       .of_key = {"8", int64_t{RecentSalts::kSalts * sizeof(uint64_t)}},
       .in_all = {"8 × 1024 keys", int64_t{RecentSalts::kSalts * RecentSalts::kOwners * sizeof(uint64_t)}},
       .test = "RecentSalts.AreBounded"},
  };
}

QR_REGISTER(HeldRows, "serve", rows);

}  // namespace
}  // namespace quire
