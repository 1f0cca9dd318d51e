package Howdah::Test::Authority;

# An authority for certificates that takes every order and looks at nothing: for what a real one (Howdah::Test::Pebble) does
# not do. `instead` gets the last part of a path, and returns what is answered there, whole, in place of the usual; `first`
# does so once. A certificate is issued for what is asked for, good for so many `days`; `profiles` are offered,
# advice on renewals where there is something `instead` of `renewal`. It has seen the names proven once the file `seen` is there, if one is named.
#
#   my $authority = Howdah::Test::Authority->start(names => ['a.example'], instead => {chain => "HTTP/1.1 200 OK\r\n..."});
#   Howdah::Test::Server->start(options => ['--acme', 'a.example', $authority->options], ...);
#   $authority->asked('order');         # how often
#   $authority->said('order')->{...}    # what it was told there last
use strict;
use warnings;

use File::Temp ();
use Howdah::Test::Command qw(run_command);
use Howdah::Test::File qw(read_if_any write_file);
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Tls;
use JSON::PP ();
use MIME::Base64 qw(decode_base64url);
use POSIX ();

sub start {
    my ($class, %wish) = @_;
    require IO::Socket::SSL;
    my $self = bless {%wish, owner => $$, dir => File::Temp->newdir('howdah-test-XXXXXX', TMPDIR => 1)}, $class;
    $self->{ca}   = Howdah::Test::Tls->new(ca => 1, subject         => '/CN=root of the authority');
    $self->{cert} = Howdah::Test::Tls->new(by => $self->{ca}, names => ['localhost', '127.0.0.1']);
    $self->{port} = free_port();
    my $listener =
        IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $self->{port}, Listen => 16, ReuseAddr => 1)
        or die "cannot listen: $@";
    defined($self->{pid} = fork) or die "cannot fork: $!";
    return $self if $self->{pid};
    setpgrp;    # so that those who answer slowly end with it, and leave nobody waiting for the end of the test's output
    local $SIG{CHLD} = 'IGNORE';

    while (my $client = $listener->accept) {
        next if fork;
        $self->_serve($client);
        POSIX::_exit(0);
    }
    POSIX::_exit(0);
}

sub options {
    my $self = shift;
    return ('--acme-directory', "https://localhost:$self->{port}/dir", '--acme-ca', $self->{ca}->cert);
}

# Where a certificate for that name is kept below --acme-dir.
sub place { my ($self, $name) = @_; return "localhost_$self->{port}_dir/$name.pem" }

sub asked {
    my ($self, $what) = @_;
    return scalar grep { $_ eq $what } split /\n/, read_if_any("$self->{dir}/asked");
}

sub said {
    my ($self, $what) = @_;
    my $request = read_if_any("$self->{dir}/said-$what") or return;
    my $payload = decode_base64url(JSON::PP::decode_json($request)->{payload});
    return length $payload ? JSON::PP::decode_json($payload) : {};
}

sub _serve {
    my ($self, $client) = @_;
    alarm 120;
    my @pair = (SSL_cert_file => $self->{cert}->cert, SSL_key_file => $self->{cert}->key);
    IO::Socket::SSL->start_SSL($client, SSL_server => 1, @pair) or return;
    while (my $head = do { local $/ = "\r\n\r\n"; <$client> }) {
        my ($what)   = $head =~ m{^\S+ /([^/\s]*)} or return;
        my ($length) = $head =~ /^content-length: *(\d+)/im;
        read $client, my $body, $length if $length;
        open my $out, '>>', "$self->{dir}/asked" or die $!;
        print {$out} "$what\n";
        close $out or die $!;
        write_file("$self->{dir}/said-$what", $body) if $length;
        my ($first) = $self->asked($what) == 1 ? $self->{first}{$what} : ();
        my $instead = $first // $self->{instead}{$what};
        return $instead->($client) if ref $instead;    # as long as it likes

        if (defined $instead) {
            print {$client} $instead;
            next;
        }
        my ($status, $content) = $self->_answer($what);
        my $fields = "Replay-Nonce: aaaa\r\nLocation: https://localhost:$self->{port}/$what-1\r\n";
        my $sized  = 'Content-Length: ' . length($content);
        print {$client} "HTTP/1.1 $status x\r\n$fields$sized\r\n\r\n", $head =~ /^HEAD/ ? '' : $content;
    }
    return;
}

sub _answer {
    my ($self, $what) = @_;
    my $url   = sub { "https://localhost:$self->{port}/" . shift };
    my @all   = @{$self->{names}};
    my $seen  = !defined $self->{seen} || -e $self->{seen};
    my $order = {
        authorizations => [map { $url->("name-$_") } @all],
        identifiers    => [map { {type => 'dns', value => $_} } @all],
        finalize       => $url->('finalize')
    };
    my %answer = (
        dir => [
            200,
            {
                (map { ('new' . ucfirst $_ => $url->($_)) } qw(nonce account order)),
                $self->{instead}{renewal} ? (renewalInfo => $url->('renewal')) : (),
                meta => {profiles => {map { ($_ => 'words') } @{$self->{profiles} // []}}}
            }
        ],
        nonce       => [200, {}],
        account     => [201, {status => 'valid'}],
        'account-1' => [200, {status => 'valid'}],
        order       => [
            201, {%$order, status => $seen ? 'ready' : 'pending', replaces => ($self->said('order') // {})->{replaces}}
        ],
        'order-1' => [
            200,
            {
                %$order, status => $self->asked('finalize') ? 'valid' : $seen ? 'ready' : 'pending',
                certificate     => $url->('chain')
            }
        ],
        finalize => [200, {%$order, status => 'valid', certificate => $url->('chain')}],
        map {
            my $challenge = {
                type   => 'tls-alpn-01',
                url    => $url->("proof-$_"),
                token  => "token-$_",
                status => $self->asked("proof-$_") ? 'processing' : 'pending'
            };
            my $status = $seen ? 'valid' : 'pending';
            my $name   = {identifier => {type => 'dns', value => $_}, status => $status, challenges => [$challenge]};
            ("name-$_" => [200, $name], "proof-$_" => [200, $challenge]);
        } @all
    );
    return (200, $self->_issued) if $what eq 'chain';
    my ($status, $content) = @{$answer{$what} // [404, {}]};
    return ($status, JSON::PP::encode_json($content));
}

# A certificate for what the last signing request asks for.
sub _issued {
    my $self = shift;
    local $SIG{CHLD} = 'DEFAULT';
    my $csr     = write_file("$self->{dir}/csr", decode_base64url($self->said('finalize')->{csr}));
    my $more    = write_file("$self->{dir}/more", 'authorityKeyIdentifier = keyid');
    my @request = (qw(x509 -req -inform DER -copy_extensions copy -in), $csr, '-extfile', $more);
    my @by      = ('-CA', $self->{ca}->cert, '-CAkey', $self->{ca}->key);
    my ($status, $pem, $said) = run_command('openssl', @request, @by, '-days', $self->{days} // 90);
    die "openssl: $said" if $status;
    return $pem;
}

sub DESTROY {
    my $self = shift;
    return if $self->{owner} != $$;
    local ($@, $!, $?);
    kill TERM => -$self->{pid}, $self->{pid};    # the group once there is one
    waitpid $self->{pid}, 0;
    return;
}

1;
