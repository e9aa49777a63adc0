// Secrets that a program presents to another one: made at random, kept as hashes, compared in
// constant time.
//
// A secret is a prefix that names its kind ("lht_") and 32 random bytes in hex. It has 256 bits of
// entropy, so a plain SHA-256 of it needs no salt and no slow hash.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace longhaul::service {

// Returns the prefix followed by 64 random hex digits.
Result<std::string> MakeSecret(std::string_view prefix);

// Returns the SHA-256 of the text as 64 hex digits.
std::string HashOf(std::string_view text);

// Returns whether `text` is 64 lower-case hex digits.
bool IsHash(std::string_view text);

// Returns whether both are equal. The time doesn't depend on where they differ.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace longhaul::service
