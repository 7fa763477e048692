// What this room holds for clients.
#include "base/held_memory.h"

#include "engine/engine.h"
#include "http/limits.h"
#include "serve/held_bytes.h"
#include "serve/limits.h"
#include "serve/recent_salts.h"
#include "serve/run.h"
#include "text/jinja/limits.h"

namespace quire {
namespace {

std::vector<HeldRow> rows() {
  const ServeLimits l;
  const HttpLimits http;
  const ServeOptions serve;
  const TemplateLimits chat;
  const auto rendering = static_cast<int64_t>(chat.memory_bytes + chat.output_bytes);
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
      {.what = "fields that every event of /v1/responses repeats (metadata, instructions)",
       .of_request = {"body_bytes", http.body_bytes},
       .of_connection = {"body_bytes", http.body_bytes},
       .in_all = {"body_bytes × n_connections", http.body_bytes * http.n_connections},
       .test = "Responses.WhatTheirEventsRepeatIsTheirOwnBody"},
      {.what = "values and text of the chat templates being rendered",
       .of_request = {"template_memory_bytes + template_output_bytes", rendering},
       .in_all = {"… × prep threads", rendering * serve.n_prep_threads},
       .test = "ChatTemplateLimits.StopBombs"},
      {.what = "tokens that are not read yet, answers that are made before they are sent, replies that need no engine",
       .of_request = {"answer_bytes + unread_bytes", l.answer_bytes + l.unread_bytes},
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
