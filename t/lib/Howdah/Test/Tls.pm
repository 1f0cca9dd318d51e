package Howdah::Test::Tls;

# Certificates for tests, made by openssl, and connections by TLS.
#
#   my $tls = Howdah::Test::Tls->new;                            # localhost and 127.0.0.1, ECDSA
#   my $rsa = Howdah::Test::Tls->new(names => ['*.example.org'], kind => 'rsa', days => 10);
#   my $ca  = Howdah::Test::Tls->new(ca => 1);
#   my $of  = Howdah::Test::Tls->new(by => $ca, subject => '/O=Howdah/CN=client');
#   Howdah::Test::Server->start(options => [$tls->options], ...);
#   $tls->replace($rsa);                                         # in the files that options has named
#   my $socket = Howdah::Test::Tls::connect_to($port, SSL_hostname => 'a.example.org');    # IO::Socket::SSL, or undef
#
# With TEST_OVER_TLS in the environment Howdah::Test::Server and Howdah::Test::Client speak TLS: any test over plain
# connections is then one over TLS. t/50-feature/tls-everything.t runs some so, either_way a test of its own.
use strict;
use warnings;

use File::Copy qw(copy);
use File::Temp ();
use Howdah::Test::Command qw(run_command);
use Test::More;

sub is_wanted { return $ENV{TEST_OVER_TLS} }

sub is_installed {
    return eval { require IO::Socket::SSL; 1 } && !(run_command('openssl', 'version'))[0];
}

# The same test on plain connections, and by TLS where that can be had.
sub either_way {
    my $test = shift;
    subtest plain => $test;
SKIP: {
        skip 'needs IO::Socket::SSL and openssl', 1 if !__PACKAGE__->is_installed;
        local $ENV{TEST_OVER_TLS} = 1;
        subtest TLS => $test;
    }
    return;
}

# Others make one of their own.
my $common;
sub common { return $common //= __PACKAGE__->new }

sub new {
    my ($class, %wish) = @_;
    my $self  = bless {dir => File::Temp->newdir('howdah-test-XXXXXX', TMPDIR => 1)}, $class;
    my $names = join ',', map { (/^[\d.]+\z/ ? 'IP:' : 'DNS:') . $_ } @{$wish{names} // ['localhost', '127.0.0.1']};
    my @kind  = ($wish{kind} // '') eq 'rsa' ? qw(rsa:2048) : qw(ec -pkeyopt ec_paramgen_curve:P-256);
    my @by    = $wish{by} ? ('-CA', $wish{by}->cert, '-CAkey', $wish{by}->key) : ();
    my @ca    = $wish{ca} ? () : ('-addext', 'basicConstraints=critical,CA:FALSE', '-addext', "subjectAltName=$names");
    my ($status, undef, $said) = run_command(
        'openssl', 'req', '-x509', '-nodes', '-newkey', @kind, '-days', $wish{days} // 90,
        '-subj', $wish{subject} // '/CN=howdah test', '-keyout', $self->key, '-out', $self->cert, @by, @ca
    );
    die "openssl: $said" if $status;
    return $self;
}

sub cert { return "$_[0]{dir}/cert.pem" }
sub key { return "$_[0]{dir}/key.pem" }
sub options { my $self = shift; return ('--tls-cert', $self->cert, '--tls-key', $self->key) }

# Takes what is in the files of another one.
sub replace {
    my ($self, $other) = @_;
    for my $file (qw(key cert)) { copy($other->$file, $self->$file) or die "cannot copy: $!" }
    return;
}

sub connect_to {
    my ($port, %how) = @_;
    require IO::Socket::SSL;
    return IO::Socket::SSL->new(
        PeerAddr        => '127.0.0.1',
        PeerPort        => $port,
        SSL_verify_mode => IO::Socket::SSL::SSL_VERIFY_NONE(),
        Timeout         => 20,
        %how
    );
}

# Ends our side as TLS does: the connection stays open for the answer.
sub close_notify { return Net::SSLeay::shutdown($_[0]->_get_ssl_object) >= 0 }

1;
