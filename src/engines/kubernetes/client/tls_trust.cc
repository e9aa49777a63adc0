#include "engines/kubernetes/client/tls_trust.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <utility>

#include "base/check.h"

namespace longhaul::engines::kubernetes {
namespace {

struct FreeStore {
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
};
using Store = std::unique_ptr<X509_STORE, FreeStore>;

Result<Store> ReadAuthorities(const std::string& pem) {
  Store store(X509_STORE_new());
  CHECK(store != nullptr);  // out of memory
  // As libcurl does: an authority of the file is trusted although another one has signed it.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_TRUSTED_FIRST | X509_V_FLAG_PARTIAL_CHAIN);
  BIO* const text = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  CHECK(text != nullptr);  // out of memory
  bool any = false;
  while (X509* const certificate = PEM_read_bio_X509(text, nullptr, nullptr, nullptr)) {
    any = X509_STORE_add_cert(store.get(), certificate) == 1 || any;
    X509_free(certificate);
  }
  BIO_free(text);
  ERR_clear_error();  // the end of the text is one
  if (any) return store;
  return InvalidArgument(
      "the authority of the API server's certificate is not a certificate in PEM: "
      "certificate-authority must name a file that has one");
}

}  // namespace

Result<std::unique_ptr<TlsTrust>> TlsTrust::Create(const std::string& authorities) {
  Store store;
  if (!authorities.empty()) {
    ASSIGN_OR_RETURN(store, ReadAuthorities(authorities));
  }
  CURLSH* const sessions = curl_share_init();
  CHECK(sessions != nullptr);  // out of memory
  // Without functions that lock, because one thread uses it.
  CHECK(curl_share_setopt(sessions, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) == CURLSHE_OK);
  return std::unique_ptr<TlsTrust>(new TlsTrust(store.release(), sessions));
}

TlsTrust::~TlsTrust() {
  curl_share_cleanup(sessions_);
  X509_STORE_free(store_);
}

void TlsTrust::Apply(CURL* easy) const {
  CHECK(curl_easy_setopt(easy, CURLOPT_SHARE, sessions_) == CURLE_OK);
  if (store_ == nullptr) return;
  // Otherwise the system's authorities are trusted beside the cluster's own.
  for (const CURLoption option : {CURLOPT_CAINFO, CURLOPT_CAPATH}) {
    CHECK(curl_easy_setopt(easy, option, static_cast<const char*>(nullptr)) == CURLE_OK);
  }
  CHECK(curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, &TlsTrust::OnContext) == CURLE_OK);
  CHECK(curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, this) == CURLE_OK);
}

CURLcode TlsTrust::OnContext(CURL*, void* context, void* self) {
  SSL_CTX_set1_cert_store(static_cast<SSL_CTX*>(context), static_cast<TlsTrust*>(self)->store_);
  return CURLE_OK;
}

}  // namespace longhaul::engines::kubernetes
