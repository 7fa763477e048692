// Unicode normalisation forms. Text that is already normal, which is nearly all text, is copied at memory speed: only a
// stretch around a suspicious code point (a mark, a decomposable, a part of a composition) goes through decomposition,
// stable ordering of marks and composition. Linear in the text, towers of marks included.
#pragma once
#include <memory>
#include <string>

#include "text/normalizer.h"

namespace quire {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

std::unique_ptr<Normalizer> make_unicode_form(UnicodeForm form);
void append_unicode_form(UnicodeForm form, std::string_view in, std::string& out);

// Lower case by the full mapping without context, as the reference: only U+0130 becomes two code points.
void append_lower(char32_t cp, std::string& out);

}  // namespace quire
