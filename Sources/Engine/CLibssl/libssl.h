// OpenSSL 3, with wrappers of its function-like macros, which Swift does not import.
#ifndef CLIBSSL_H
#define CLIBSSL_H

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

static inline void clibssl_set_modes(SSL_CTX *context) {
    SSL_CTX_set_mode(
        context,
        SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
}

static inline int clibssl_set_minimum_tls_1_2(SSL_CTX *context) {
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
}

static inline void clibssl_set_options(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
}

// A request ends where its head says, so that a server need not distrust an unannounced end of the connection.
static inline void clibssl_set_server_options(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
}

static inline int clibssl_set_server_name(SSL *ssl, const char *name) {
    return (int)SSL_set_tlsext_host_name(ssl, name);
}

static inline void clibssl_disable_session_cache(SSL_CTX *context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}

static inline EVP_PKEY *clibssl_make_p256_key(void) {
    return EVP_EC_gen("P-256");
}

static inline EVP_PKEY *clibssl_make_rsa_2048_key(void) {
    return EVP_RSA_gen(2048);
}

static inline long clibssl_pending(BIO *bio) {
    return BIO_pending(bio);
}

static inline long clibssl_memory(BIO *bio, char **data) {
    return BIO_get_mem_data(bio, data);
}

#endif
