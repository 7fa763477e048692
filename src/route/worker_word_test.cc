// What workers say of their load, as each of them says it, and that nonsense says nothing.
#include "route/worker_word.h"

#include <gtest/gtest.h>

#include <string>

#include "base/rng.h"

namespace quire {
namespace {

TEST(WorkerWord, IsReadFromOurs) {
  EXPECT_EQ(word_of_load(R"({"server_load":5,"running":3,"waiting":2})"), (WorkerWord{3, 2}));
  for (const char* body :
       {"", "{}", "[]", R"({"running":3})", R"({"running":-1,"waiting":2})", R"({"running":1e9,"waiting":2})",
        R"({"running":"3","waiting":2})", R"({"server_load":3})", "{\"running\":3,"})
    EXPECT_EQ(word_of_load(body), std::nullopt) << body;
}

TEST(WorkerWord, IsReadFromThePagesOfOthers) {
  const std::string help = "# HELP vllm:num_requests_running Requests.\n# TYPE vllm:num_requests_running gauge\n";
  EXPECT_EQ(word_of_metrics(help + "vllm:num_requests_running{engine=\"0\",model_name=\"a } 7\"} 3.0\n"
                                   "vllm:num_requests_running{engine=\"1\",model_name=\"a\"} 4.0 1764324000000\n"
                                   "vllm:num_requests_waiting{engine=\"0\"} 2.0\n"
                                   "vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 9\n"),
            (WorkerWord{7, 2}));
  EXPECT_EQ(word_of_metrics("sglang:num_running_reqs{tp_rank=\"0\"} 5\nsglang:num_queue_reqs 1\n"), (WorkerWord{5, 1}));
  EXPECT_EQ(word_of_metrics("llamacpp:requests_processing 2\nllamacpp:requests_deferred 1"), (WorkerWord{2, 1}));
  EXPECT_EQ(word_of_metrics("tgi_batch_current_size 6\ntgi_queue_size 0\n"), (WorkerWord{6, 0}));
  EXPECT_EQ(word_of_metrics("vllm:num_requests_running 3"), (WorkerWord{3, 0}));
}

TEST(WorkerWord, WhatIsNoNumberOfRequestsSaysNothing) {
  for (const char* text :
       {"", "{}", "quire_num_requests_running 3\n", "vllm:num_requests_running", "vllm:num_requests_running ",
        "vllm:num_requests_running{a=\"b\" 3\n", "vllm:num_requests_running NaN\n", "vllm:num_requests_running -1\n",
        "vllm:num_requests_running 1e12\n", "vllm:num_requests_running 900000\nvllm:num_requests_waiting 900000\n",
        "vllm:num_requests_running 3\nvllm:num_requests_waiting many\n"})
    EXPECT_EQ(word_of_metrics(text), std::nullopt) << text;
}

TEST(WorkerWord, WhateverComesANumberIsWithinItsBounds) {
  const std::string page = "vllm:num_requests_running{a=\"b\"} 3\nvllm:num_requests_waiting 2\n";
  Rng rng(11);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = page;
    for (int64_t k = rng.between(1, 4); k > 0; --k)
      text[static_cast<size_t>(rng.between(0, std::ssize(text) - 1))] = "0123456789eE+-.{}\" \n"[rng.between(0, 19)];
    const auto word = word_of_metrics(text);
    if (!word) continue;
    ASSERT_TRUE(word->n_running >= 0 && word->n_waiting >= 0 && word->n() <= kMostSaidRequests) << text;
  }
}

}  // namespace
}  // namespace quire
