# Howdah::Kit and Plack's middleware: the order of layers, sessions in a cookie or in a store.
use strict;
use warnings;

use HTTP::Request::Common qw(GET);
use Howdah::Kit;
use MIME::Base64 ();
use Plack::Test;
use Test::More;
use URI::Escape ();

sub ask {
    my ($app, @headers) = @_;
    open my $errors, '>', \my $unread or die $!;
    my $quiet = sub { my $env = shift; $env->{'psgi.errors'} = $errors; return $app->($env) };
    return Plack::Test->create($quiet)->request(GET('/', @headers));
}

package Plack::Middleware::KitTestWord {    ## no critic (RequireFilenameMatchesPackage)
    require Plack::Middleware;
    our @ISA = ('Plack::Middleware');
    $INC{'Plack/Middleware/KitTestWord.pm'} = __FILE__;

    sub call {
        my ($self, $env) = @_;
        my $answer = $self->app->($env);
        push @{$answer->[1]}, 'X-Word' => $self->{word} // 'none';
        return $answer;
    }
}

subtest 'the first is outermost' => sub {
    my $app = Howdah::Kit->build(
        sub { 'x' },
        middleware => ['KitTestWord', ['+Plack::Middleware::KitTestWord' => word => 'inner']]
    );
    is ask($app)->header('X-Word'), 'inner, none';
    $app = Howdah::Kit->build(sub { die "x\n" }, middleware => ['KitTestWord']);
    is join(' ', map { $_->code, $_->header('X-Word') } ask($app)), '500 none', 'an error passes through them, too';
};

subtest 'sessions' => sub {
    eval { require Plack::Middleware::Session::Cookie; 1 } or plan skip_all => 'Plack::Middleware::Session is missing';
    require Plack::Session::Store;
    my $count = sub { my $c = shift; return $c->text(++$c->session->{count}) };
    for my $wish ({secret => 'sixteen letters!', session_key => 'mine'}, {store => Plack::Session::Store->new}) {
        my ($how)   = sort keys %$wish;
        my $first   = ask(Howdah::Kit->build($count, session => $wish));
        my $cookie  = $first->header('Set-Cookie') =~ s/;.*//r;
        my $another = Howdah::Kit->build($count, session => $wish);
        is ask($another, Cookie => $cookie)->content, 2, "$how: known to whoever has the same";
        is ask($another)->content, 1, 'a stranger is not';
        if ($wish->{secret}) {
            like $first->header('Set-Cookie'), qr/^mine=.*HttpOnly/, 'options of the middleware';
            my (undef, $session) = split /:/, URI::Escape::uri_unescape($cookie);
            is MIME::Base64::decode($session), '{"count":1}', 'it is JSON, of which nobody makes code';
            my $third = Howdah::Kit->build($count, session => {%$wish, secret => 'sixteen others!!'});
            is ask($third, Cookie => $cookie)->content, 1, 'nor is it known to who has another secret';
        }
    }
};

done_testing;
