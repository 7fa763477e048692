// What a filter's file is made of (ops/filters.h). filters/NAME.h holds a struct with
//   kName     the file's name
//   kListed   what lists of samplers call it; first what errors call it
//   Numbers   what it reads of a row's parameters, members of names of their own, with the values at which it does
//             nothing; of another filter's Numbers it may read too
//   fields    f(FilterField, p.member…) for each number that a request may say, of the structs p that have these
//   members act       reshapes or cuts the candidates of a row (SampleCandidates); does nothing where its numbers say
//   so draw      where it needs a random number beside that of the token: a function of seed and position
#pragma once
#include <array>
#include <string_view>

namespace quire {

// Where the makers of models and the command line have a say about a field; no option: nowhere.
struct FilterAdvice {
  double usual = 0;           // where neither says
  std::string_view hf, gguf;  // the keys of a folder's generation_config.json and of a GGUF file
  std::string_view option = {}, help = {};
};
// A number that a filter takes from a request. Every server, command and recording reads it from here.
struct FilterField {
  std::string_view name;
  double lo, hi;   // what a request may say; models and the command line: not below 0
  double neutral;  // where nobody says
  std::string_view other_name = {};
  double (*take)(double) = nullptr;  // what a value that is legal stands for; null: itself
  FilterAdvice advice = {};
};

}  // namespace quire
