// The parser of objects of the API, with its buffers, which are reused from object to object.
//
// Parsing is on demand (simdjson): a reader visits the fields that it requires, and the parser
// skips the others without reading their values. A skipped value is not validated beyond its
// brackets and its encoding. Not thread-safe. One text at a time: the next one invalidates what the
// reader of the previous one still refers to.
#pragma once

#include <memory>

namespace longhaul::engines::kubernetes {

class JsonParser {
 public:
  JsonParser();
  ~JsonParser();
  JsonParser(const JsonParser&) = delete;
  JsonParser& operator=(const JsonParser&) = delete;

  struct Impl;  // json_fields.h
  Impl& impl() { return *impl_; }

 private:
  const std::unique_ptr<Impl> impl_;
};

}  // namespace longhaul::engines::kubernetes
